// Adaptive noise: measures the model, chooses the noise of each step, and pays for both.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/statement/outcome.hpp"
#include "privgrad/train/release_witness.hpp"
#include "privgrad/train/workbench.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/mechanism.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/row_sum.hpp"

namespace privgrad::core {

/// Returns the measurement on public test rows: their mean loss, or the share of correct answers.
/// \throws IoError if there are no test rows, because the declared test split received none.
double measured_on_test_rows(const Measurement& measurement, const Evaluation& sums,
                             std::size_t rows);

/// The adaptive noise of a run: makes the measurements that the schedule requests, and pays for
/// them and for the steps, one at a time.
///
/// Sensitivity of a loss_change: an example contributes the difference between its losses at two
/// released models, after each loss was clamped to [0, loss_bound]. So the difference is at most
/// loss_bound in absolute value. The sum of all differences changes by at most loss_bound if an
/// example is added, removed or zeroed, and by at most twice loss_bound if an example is replaced,
/// as the accountant assumes for a `gaussian` event. row_sum() enforces the bound once more.
///
/// The losses of the last measurement are kept for the next one; they are as private as the rows
/// and stay in this object.
class AdaptiveNoise {
 public:
  /// \param plan  a plan with adaptive noise.
  /// \param train  the private rows.
  /// \param key  the run's key.
  /// \param aggregator  the run's started aggregator, which is notified whenever the noise changes.
  /// \param leader  as TrainerSetting::leader.
  AdaptiveNoise(const Plan& plan, Aggregator& aggregator, const Dataset& train,
                const RandomKey& key, Executor& executor, ReleaseWitness* leader = nullptr);
  AdaptiveNoise(const AdaptiveNoise&) = delete;
  AdaptiveNoise& operator=(const AdaptiveNoise&) = delete;

  /// Must be called before each step is paid for: makes a measurement if one is due, and chooses
  /// the noise of the step.
  /// \param bench  has the released model loaded.
  /// \param test  the test rows.
  /// \returns false if the budget does not pay for the measurement; nothing was released then.
  bool choose(std::uint64_t step, Workbench& bench, const Dataset& test, Ledger& ledger);

  /// Pays for the step, according to its noise.
  /// \returns nothing if the budget does not pay for it.
  std::optional<Receipt> pay(std::uint64_t step, Ledger& ledger);

  /// Sets the key for the noise of later measurements.
  /// \param key  the key of the next step.
  void use_key(const RandomKey& key) { check_mechanism_.use_key(key.derive(kPurpose)); }

  /// Saves the losses at the last measurement, which are private, and all choices and charges.
  void save(StateWriter& out) const;
  /// \throws IoError if the state has another number of rows or steps.
  void restore(StateReader& in);

  /// The noise multiplier that was chosen last; before the first choice, the plan's.
  double noise_multiplier() const noexcept { return current_; }
  const NoiseRecord& record() const noexcept { return record_; }

 private:
  static auto numbers(auto& self) {
    return std::tie(self.losses_, self.multipliers_, self.current_, self.record_.noise_multiplier,
                    self.record_.measured_at, self.record_.measured);
  }
  std::vector<double> bounded_losses(const Program& program) const;
  std::optional<double> measure(std::uint64_t step, Workbench& bench, const Dataset& test,
                                Ledger& ledger);
  std::optional<double> release_change(std::uint64_t step, const Workbench& bench, Ledger& ledger);
  void change_to(double multiplier, std::uint64_t step);
  void tell_aggregator();

  static constexpr std::string_view kPurpose = "noise/checks";

  const Plan& plan_;
  const AdaptiveNoisePlan& adapts_;
  ComponentPtr<Schedule> schedule_;
  Aggregator& aggregator_;
  const Dataset& train_;
  Executor& executor_;
  IndependentNoise check_noise_;
  Mechanism check_mechanism_;
  std::vector<double> losses_;       // of each example, clamped, at the last measurement
  std::vector<double> multipliers_;  // the noise of each step so far
  double current_;
  NoiseRecord record_;
  ReleaseWitness* leader_;
};

}  // namespace privgrad::core
