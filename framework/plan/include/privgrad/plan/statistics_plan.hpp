#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/trust/ledger.hpp"

namespace privgrad::core {

struct Manifest;
struct Setting;

/// What is released of the private rows before the first step.
enum class StatisticOf {
  transform = 1,  ///< What a transform learns from (BoundedStatistic).
  rows,           ///< How many there are: data.size.
  classes,        ///< How many each class has: report.class_counts.
};

/// A statistic of the private rows, released before the first step and paid for
/// (docs/statistics.md). All of it is public.
struct PlannedStatistic {
  StatisticOf of = StatisticOf::transform;
  std::size_t transform = 0;      ///< Its number in data.transforms; of a count 0.
  std::string name;               ///< The transform's: "standardize"; of a count its key.
  std::string what;               ///< "means and mean squares of the features".
  std::size_t size = 0;           ///< Released numbers.
  double l2_bound = 0.0;          ///< Of a row's contribution.
  double noise_multiplier = 0.0;  ///< 0: noise is off.
  double share = 0.0;  ///< Of the budget, as the manifest gives it; 0: it gives the noise.

  bool operator==(const PlannedStatistic&) const = default;

  /// What it costs: all rows are in it, so that nothing amplifies.
  Charge charge() const;
};

/// A metric of the private rows that is released of the final model, and of those between the steps
/// if the manifest says so: report.train_accuracy.
///
/// A row adds 1/2 if it is classified rightly, and -1/2 if not: at most 1/2 long, whatever it holds.
/// The 1/2 that is added to the released mean afterwards is a constant.
struct PlannedReport {
  static constexpr double kBound = 0.5;  ///< Of what a row adds.

  double noise_multiplier = 0.0;  ///< Of each release; 0: noise is off.
  double share = 0.0;             ///< As PlannedStatistic::share, of all releases together.
  std::uint64_t every = 0;  ///< Steps from one release to the next; 0: of the kept model alone.
  /// Releases in a row without a new best, behind which the run ends; 0: none do.
  std::uint64_t patience = 0;

  bool operator==(const PlannedReport&) const = default;

  /// Whether the model behind this many steps is reported between the steps.
  /// \param of  how many steps are made at most: the model behind all of them is the kept one's.
  bool is_due(std::uint64_t steps, std::uint64_t of) const {
    return every > 0 && steps > 0 && steps % every == 0 && steps < of;
  }
  /// How many releases there are between so many steps, which the kept model's is not among.
  std::uint64_t between(std::uint64_t steps) const {
    return every == 0 || steps == 0 ? 0 : (steps - 1) / every;
  }

  /// Whether the last `patience` of these are no better than one before them: a function of released
  /// values and of the manifest, and of nothing else (docs/statistics.md, "Stopping early").
  bool ends_run(std::span<const double> released) const;

  /// What the release costs of the model behind so many steps, paid for before the next step.
  Charge charge_behind(std::uint64_t steps) const;
  /// What that of the kept model costs. It is paid for behind all steps, and planned before them: no
  /// step can spend it.
  Charge charge() const;
  /// Of all releases of a run of so many steps, in their order; none without noise.
  std::vector<Charge> charges(std::uint64_t steps) const;
};

/// What the manifest's report asks for; nothing if it asks for nothing.
/// \param steps  that are planned.
/// \throws as plan_statistics().
std::optional<PlannedReport> plan_report(const Manifest& manifest, const Setting& setting,
                                         std::uint64_t steps);

/// \param steps  that are planned.
/// \throws ManifestError, PrivacyError if both together leave nothing for training.
void check_shares(const Manifest& manifest, const std::vector<PlannedStatistic>& statistics,
                  const std::optional<PlannedReport>& report, std::uint64_t steps);

/// The statistics that the manifest asks for, in the order of their releases: the number of rows, that
/// of each class, and those of transforms in their order.
/// \throws ManifestError, PrivacyError with the place, for what does not fit together, and for more
///   than the budget pays for.
std::vector<PlannedStatistic> plan_statistics(const Manifest& manifest, const Setting& setting);

/// Their charges, in their order: the first lines of the ledger.
std::vector<Charge> charges_of(const std::vector<PlannedStatistic>& statistics);

/// What is planned.
nlohmann::json to_json(const PlannedReport& planned);

}  // namespace privgrad::core
