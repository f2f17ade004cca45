// Checks in advance that exact sums and their noise stay within the ranges of their types.
#pragma once

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// Checks, from public numbers alone, that exact sums and their noise fit into their types, so that
/// runs need no such check.
/// \param correlated  null: releases are independent.
/// \throws ManifestError for noise of more than kLargestRoundedSigma cells; for running sums that
///   could exceed 64 bits with batches of twice the expected size (they would wrap, which is
///   harmless but useless); for recipes whose roundings would need more than kLargestNoiseFactor of
///   noise.
void check_exact_range(const Manifest& manifest, const PlanNumbers& plan,
                       const CorrelatedPlan* correlated);

/// The largest number of examples in a step of a correlated plan, which refuses more: twice
/// the expected number, or under `add_or_remove_one`, where the number is private,
/// kMostBatchRows.
std::uint64_t most_rows(const Manifest& manifest, const PlanNumbers& plan);

}  // namespace privgrad::core
