#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/trust/ledger.hpp"

namespace privgrad::core {

struct Manifest;
struct Setting;

/// A statistic of the private rows that a transform learns from, released before the first step and
/// paid for (BoundedStatistic, docs/statistics.md). All of it is public.
struct PlannedStatistic {
  std::size_t transform = 0;      ///< Its number in data.transforms.
  std::string name;               ///< The transform's: "standardize".
  std::string what;               ///< "means and mean squares of the features".
  std::size_t size = 0;           ///< Released numbers.
  double l2_bound = 0.0;          ///< Of a row's contribution.
  double noise_multiplier = 0.0;  ///< 0: noise is off.
  double share = 0.0;  ///< Of the budget, as the manifest gives it; 0: it gives the noise.

  bool operator==(const PlannedStatistic&) const = default;

  /// What it costs: all rows are in it, so that nothing amplifies.
  Charge charge() const;
};

/// A metric of the private rows that is released of the final model: report.train_accuracy.
///
/// A row adds 1/2 if it is classified rightly, and -1/2 if not: at most 1/2 long, whatever it holds.
/// The 1/2 that is added to the released mean afterwards is a constant.
struct PlannedReport {
  static constexpr double kBound = 0.5;  ///< Of what a row adds.

  double noise_multiplier = 0.0;  ///< 0: noise is off.
  double share = 0.0;             ///< As PlannedStatistic::share.

  bool operator==(const PlannedReport&) const = default;

  /// What it costs. It is paid for behind all steps, and planned before them: no step can spend it.
  Charge charge() const;
};

/// What the manifest's report asks for; nothing if it asks for nothing.
/// \throws as plan_statistics().
std::optional<PlannedReport> plan_report(const Manifest& manifest, const Setting& setting);

/// \throws ManifestError, PrivacyError if both together leave nothing for training.
void check_shares(const Manifest& manifest, const std::vector<PlannedStatistic>& statistics,
                  const std::optional<PlannedReport>& report);

/// The statistics that the manifest's transforms ask for, in their order.
/// \throws ManifestError, PrivacyError with the place, for what does not fit together, and for more
///   than the budget pays for.
std::vector<PlannedStatistic> plan_statistics(const Manifest& manifest, const Setting& setting);

/// Their charges, in their order: the first lines of the ledger.
std::vector<Charge> charges_of(const std::vector<PlannedStatistic>& statistics);

}  // namespace privgrad::core
