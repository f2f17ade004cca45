// Checks beforehand that exact sums and their noise stay within the ranges that hold them.
#pragma once

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// Checks, from public numbers alone, that exact sums and their noise fit into their ranges, so
/// that no run has to look.
/// \param correlated  null: releases are independent.
/// \throws ManifestError for noise of more than kLargestRoundedSigma cells; for running sums that
///   could leave 64 bits with batches of twice the expected size (they would wrap, which is
///   harmless but useless); for recipes whose roundings would take more than kLargestNoiseFactor of
///   noise.
void check_exact_range(const Manifest& manifest, const PlanNumbers& plan,
                       const CorrelatedPlan* correlated);

/// The most examples that the sum of a step may have in a correlated plan, which refuses more:
/// twice the expected number, or under `add_or_remove_one`, where the number is private,
/// kMostBatchRows.
std::uint64_t most_rows(const Manifest& manifest, const PlanNumbers& plan);

}  // namespace privgrad::core
