// Computes, pays for and records the noisy training accuracy that a run may release.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/train/release_witness.hpp"
#include "privgrad/train/run_feature.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// The purpose (RandomKey::derive()) of the key for a report's noise.
inline constexpr std::string_view kReportPurpose = "report";

/// The contribution of each row to the report: 1/2 if the program classifies it correctly,
/// otherwise -1/2. Each row is evaluated separately, so its contribution depends on no other row.
/// \param rows  numbers of the examples.
std::vector<float> correct_halves(const Program& program, const Dataset& data,
                                  std::span<const std::uint32_t> rows, Executor& executor);

/// A released accuracy.
struct ReportedAccuracy {
  double value = 0.0;         ///< In [0, 1].
  double noise_stddev = 0.0;  ///< Of the value before it was clamped to [0, 1].
};

/// Pays for a report, and then releases the accuracy of a model.
/// \param charge  PlannedReport::charge() for the final model, otherwise charge_behind(). Reports
///   with different charges have different noise, all derived from `key`.
/// \param divisor  the divisor of the sum, from divisor_of().
/// \param halves_of_rows  computes correct_halves() of all training rows, after the payment.
/// \param model  the parameters of the model.
/// \param key  used only for reports.
/// \param ledger  null without noise.
/// \param witness  may be null.
/// \returns nothing if the ledger does not pay for the report.
std::optional<ReportedAccuracy> release_accuracy(
    const Plan& plan, const Charge& charge, double divisor,
    const std::function<std::vector<float>()>& halves_of_rows, std::span<const float> model,
    const RandomKey& key, Ledger* ledger, ReleaseWitness* witness, Executor& executor);

/// The accuracies that a run releases: of models between its steps, where an accuracy may end the
/// run, and of the model that it keeps.
class AccuracyReports final : public RunFeature {
 public:
  /// Pays for a report and releases the accuracy of the current model (release_accuracy()); nothing
  /// if the ledger does not pay for it.
  using Release = std::function<std::optional<ReportedAccuracy>(const Charge&)>;

  /// \param plan  a plan with a report; outlives this.
  AccuracyReports(const PlanNumbers& plan, Release release)
      : planned_(*plan.report), affordable_(plan.affordable_steps), release_(std::move(release)) {}

  std::optional<RunStatus> ends_run() const override;
  /// Ends the run if the budget that is left is reserved for the last report.
  std::optional<RunStatus> before_step(std::uint64_t step, RunModel& model) override;
  /// Releases the accuracy of the model, if a report is due. The following line of metrics binds
  /// the run to the accuracy before anything depends on it.
  bool after_step(std::uint64_t steps, RunModel& model) override;
  /// Releases the accuracy of the kept model; the steps have left enough budget. A run that its
  /// user ends early has no such report: otherwise, copies of its state that end at different steps
  /// would release the accuracies of different models for one charge.
  void model_is_final(RunModel& model) override;

  void save(StateWriter& out) const override;
  void restore(StateReader& in) override;
  void add_to_metrics(MetricsLine& line, std::uint64_t steps, RunModel& model) const override;
  void add_to_summary(Summary& summary) const override;

  /// The number of accuracies that were released.
  std::uint64_t made() const { return between_.size() + (kept_ ? 1 : 0); }
  /// The accuracy of the kept model, once it was released.
  const std::optional<ReportedAccuracy>& kept() const { return kept_; }

 private:
  const PlannedReport& planned_;
  std::uint64_t affordable_;  // the steps that the budget pays for
  Release release_;
  std::vector<std::uint64_t> steps_;  // the steps after which an accuracy was released
  std::vector<double> between_;       // these accuracies
  std::optional<ReportedAccuracy> kept_;
};

}  // namespace privgrad::core
