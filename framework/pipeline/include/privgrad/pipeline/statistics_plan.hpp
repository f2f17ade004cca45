#pragma once

#include <cstddef>
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

/// The statistics that the manifest's transforms ask for, in their order.
/// \throws ManifestError, PrivacyError with the place, for what does not fit together, and for more
///   than the budget pays for.
std::vector<PlannedStatistic> plan_statistics(const Manifest& manifest, const Setting& setting);

/// Their charges, in their order: the first lines of the ledger.
std::vector<Charge> charges_of(const std::vector<PlannedStatistic>& statistics);

}  // namespace privgrad::core
