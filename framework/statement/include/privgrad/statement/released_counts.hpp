// The counts of training rows that a run has released; the number of rows divides all later means.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The counts of training rows that a run has released before everything else: public, and paid for
/// (docs/statistics.md).
struct ReleasedCounts {
  /// The number of rows, at least 1: the divisor of all means that are released later. Nothing: it
  /// is not released.
  std::optional<std::uint64_t> rows;
  /// The noised number of rows of each class, which may be negative. Empty: they are not released.
  std::vector<double> classes;

  bool operator==(const ReleasedCounts&) const = default;
};

/// The divisor of sums over all rows: the released number of rows, or the public one.
/// \throws PrivacyError if the number is to be released, and has not been.
double divisor_of(const Plan& plan, const ReleasedCounts& counts);

/// The released number of rows.
/// \param noised  any finite number. \returns the nearest whole number from 1 to 2^53.
std::uint64_t count_of_rows(float noised);

/// {"rows", "class_counts"}, for the member `reported` of summaries, with the planned noise; {} if
/// the plan releases neither.
nlohmann::json to_json(const Plan& plan, const ReleasedCounts& counts);
/// Reads the counts that to_json() has written.
/// \param reported  from a summary that anybody may have written.
/// \throws IoError if they are not those that the plan releases.
ReleasedCounts counts_from_json(const Plan& plan, const nlohmann::json& reported);

}  // namespace privgrad::core
