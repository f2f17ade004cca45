// Releases about a run's training rows before the first step: counts, and statistics for
// transforms. The number of rows divides all later means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/record/summary_facts.hpp"

namespace privgrad::core {

/// A release from which a transform has learnt.
struct ReleasedStatistic {
  std::size_t transform = 0;  ///< The transform's number in the manifest.
  std::vector<float> values;
  double noise_stddev = 0.0;

  bool operator==(const ReleasedStatistic&) const = default;
};

/// Larger statistics are not recorded: a covariance of several hundred features would be larger
/// than the model.
inline constexpr std::size_t kMostRecordedNumbers = 16384;

/// Releases about a run's training rows before the first step: public, and paid for
/// (docs/statistics.md).
struct ReleasedCounts {
  /// The number of rows, at least 1: the divisor of all means that are released later. Nothing if
  /// the number is not released.
  std::optional<std::uint64_t> rows;
  /// The noisy number of rows of each class, possibly negative. Empty if not released.
  std::vector<double> classes;
  /// In the order of the transforms; at most kMostRecordedNumbers numbers each.
  std::vector<ReleasedStatistic> statistics;

  bool operator==(const ReleasedCounts&) const = default;
};

/// The divisor of sums over all rows: the released or the public number of rows.
/// \throws PrivacyError if the plan releases the number, but it has not been released yet.
double divisor_of(const Plan& plan, const ReleasedCounts& counts);

/// The weight of each class, if the manifest has `model.class_weights: balanced`: the mean of the
/// released class counts, divided by the count of the class. Counts are raised to at least 1, and
/// weights are at most report.class_counts.largest_weight.
///
/// Privacy: post-processing of released counts. The loss of each row is multiplied by the weight of
/// its own class.
/// \returns an empty list if the manifest does not request class weights, or before the class
///   counts are released.
std::vector<double> class_weights_of(const Plan& plan, const ReleasedCounts& counts);

/// The released number of rows.
/// \param noised  any finite number.
/// \returns the nearest integer from 1 to 2^53.
std::uint64_t count_of_rows(float noised);

/// The member `reported` of summaries, without accuracies; nothing if it would be empty.
std::optional<ReportedFacts> reported_facts(const Plan& plan, const ReleasedCounts& counts);
/// Reads counts and statistics back from the JSON of reported_facts().
/// \param reported  from a summary of unknown origin.
/// \throws IoError if `reported` lacks a release of the plan that is recorded, or has it in a wrong
///   form.
ReleasedCounts counts_from_json(const PlanNumbers& plan, const nlohmann::json& reported);

}  // namespace privgrad::core
