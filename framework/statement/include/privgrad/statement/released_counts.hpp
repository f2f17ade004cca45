#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The counts of training rows that a run has released before anything else: public, and paid for
/// (docs/statistics.md).
struct ReleasedCounts {
  /// How many there are, at least 1: the divisor of all means that are released later. Nothing: it is
  /// not released.
  std::optional<std::uint64_t> rows;
  /// How many of each class, as noised: one number for each, which may be negative. Empty: they are
  /// not released.
  std::vector<double> classes;

  bool operator==(const ReleasedCounts&) const = default;
};

/// What sums over all rows are divided by: the released number of rows, or the public one.
/// \throws PrivacyError if the number is to be released, and has not been.
double divisor_of(const Plan& plan, const ReleasedCounts& counts);

/// The released number of rows.
/// \param noised  any finite number. \returns the nearest whole number from 1 to 2^53.
std::uint64_t count_of_rows(float noised);

/// "rows", "class_counts": for the member `reported` of summaries, with the noise that was planned; {}
/// if the plan releases neither.
nlohmann::json to_json(const Plan& plan, const ReleasedCounts& counts);
/// What to_json() has written.
/// \param reported  of a summary that anybody may have written.
/// \throws IoError if it is none of what the plan releases.
ReleasedCounts counts_from_json(const Plan& plan, const nlohmann::json& reported);

}  // namespace privgrad::core
