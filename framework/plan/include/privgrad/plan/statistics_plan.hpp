// The statistics and reports that a run releases in addition to its steps: noise and charges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/record/statement_facts.hpp"
#include "privgrad/trust/ledger.hpp"

namespace privgrad::core {

struct Manifest;
struct Setting;

/// The kinds of releases about the private rows before the first step.
enum class StatisticOf {
  transform = 1,  ///< The statistic from which a transform learns (BoundedStatistic).
  rows,           ///< The number of rows: data.size.
  classes,        ///< The number of rows of each class: report.class_counts.
};

/// A statistic of the private rows, released and charged before the first step
/// (docs/statistics.md). All of this struct is public.
struct PlannedStatistic {
  StatisticOf of = StatisticOf::transform;
  std::size_t transform = 0;      ///< The transform's index in data.transforms; 0 for a count.
  std::string name;               ///< The transform's name, such as "standardize"; a count's key.
  std::string what;               ///< "means and mean squares of the features".
  std::size_t size = 0;           ///< Number of released values.
  double l2_bound = 0.0;          ///< Bound on a row's contribution.
  double noise_multiplier = 0.0;  ///< 0: noise is off.
  double share = 0.0;             ///< Part of the budget, from the manifest; 0: noise is given.

  bool operator==(const PlannedStatistic&) const = default;

  /// Its charge: every row takes part, so there is no amplification.
  Charge charge() const;
};

/// A metric on the private rows that is released for the final model, and for intermediate models
/// if the manifest says so: report.train_accuracy.
///
/// A row adds 1/2 if it is classified correctly, and -1/2 if not: a contribution of length at most
/// 1/2, whatever the row contains. The 1/2 that is added to the released mean afterwards is a
/// constant.
struct PlannedReport {
  static constexpr double kBound = 0.5;  ///< Bound on a row's contribution.

  double noise_multiplier = 0.0;  ///< For each release; 0: noise is off.
  double share = 0.0;             ///< Like PlannedStatistic::share, for all releases together.
  std::uint64_t every = 0;        ///< Steps between two releases; 0: only the final model.
  /// The run ends after this many successive releases without a new best value; 0: no limit.
  std::uint64_t patience = 0;

  bool operator==(const PlannedReport&) const = default;

  /// Whether the model after this many steps is reported during the run.
  /// \param of  the largest number of steps, after which only the final model is reported.
  bool is_due(std::uint64_t steps, std::uint64_t of) const {
    return every > 0 && steps > 0 && steps % every == 0 && steps < of;
  }
  /// The number of releases during `steps` steps, without the final model's release.
  std::uint64_t between(std::uint64_t steps) const {
    return every == 0 || steps == 0 ? 0 : (steps - 1) / every;
  }

  /// Whether the last `patience` values are no better than an earlier value: depends only on
  /// released values and the manifest (docs/statistics.md, "Stopping early").
  bool ends_run(std::span<const double> released) const;

  /// The cost of the release for the model after this many steps, charged before the next step.
  Charge charge_behind(std::uint64_t steps) const;
  /// The cost of the release for the final model. It is charged after all steps but planned before
  /// them, so no step can spend it.
  Charge charge() const;
  /// The charges of all releases in a run of this many steps, in order; empty without noise.
  std::vector<Charge> charges(std::uint64_t steps) const;
};

/// The report that the manifest requests; nothing if it requests none.
/// \param steps  number of planned steps.
/// \throws like plan_statistics().
std::optional<PlannedReport> plan_report(const Manifest& manifest, const Setting& setting,
                                         std::uint64_t steps);

/// \param steps  number of planned steps.
/// \throws ManifestError, PrivacyError if statistics and report leave no budget for training.
void check_shares(const Manifest& manifest, const std::vector<PlannedStatistic>& statistics,
                  const std::optional<PlannedReport>& report, std::uint64_t steps);

/// The statistics that the manifest requests, in the order of their releases: the number of rows,
/// the number of rows of each class, and the transforms' statistics in the transforms' order.
/// \throws ManifestError, PrivacyError with the place, for parts that do not fit together, and if
///   the budget cannot pay for them.
std::vector<PlannedStatistic> plan_statistics(const Manifest& manifest, const Setting& setting);

/// The charges of the statistics, in order: the first lines of the ledger.
std::vector<Charge> charges_of(const std::vector<PlannedStatistic>& statistics);

ReportFacts facts_of(const PlannedReport& planned);

}  // namespace privgrad::core
