// What a run has released of its training rows before the first step: counts, of which the number of
// rows divides all later means, and what transforms learn from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// A release that a transform has learnt from.
struct ReleasedStatistic {
  std::size_t transform = 0;  ///< Its number in the manifest.
  std::vector<float> values;
  double noise_stddev = 0.0;

  bool operator==(const ReleasedStatistic&) const = default;
};

/// Longer statistics are not recorded: a covariance of some hundred features would be larger than
/// the model.
inline constexpr std::size_t kMostRecordedNumbers = 16384;

/// What a run has released of its training rows before the first step: public, and paid for
/// (docs/statistics.md).
struct ReleasedCounts {
  /// The number of rows, at least 1: the divisor of all means that are released later. Nothing: it
  /// is not released.
  std::optional<std::uint64_t> rows;
  /// The noised number of rows of each class, which may be negative. Empty: they are not released.
  std::vector<double> classes;
  /// In the order of the transforms; of at most kMostRecordedNumbers each.
  std::vector<ReleasedStatistic> statistics;

  bool operator==(const ReleasedCounts&) const = default;
};

/// The divisor of sums over all rows: the released number of rows, or the public one.
/// \throws PrivacyError if the number is to be released, and has not been.
double divisor_of(const Plan& plan, const ReleasedCounts& counts);

/// The released number of rows.
/// \param noised  any finite number. \returns the nearest whole number from 1 to 2^53.
std::uint64_t count_of_rows(float noised);

/// {"rows", "class_counts", "statistics"}, for the member `reported` of summaries, counts with the
/// planned noise; {} if the plan releases none.
nlohmann::json to_json(const Plan& plan, const ReleasedCounts& counts);
/// Reads what to_json() has written.
/// \param reported  from a summary that anybody may have written.
/// \throws IoError if they are not those that the plan releases.
ReleasedCounts counts_from_json(const Plan& plan, const nlohmann::json& reported);

}  // namespace privgrad::core
