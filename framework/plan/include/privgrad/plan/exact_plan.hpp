// Checks in advance that exact sums and their noise stay within the ranges of their types.
#pragma once

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// Checks, using only public numbers, that exact sums and their noise fit into their types, so that
/// runs need no such check.
/// \param correlated  null for independent releases.
/// \throws ManifestError for noise of more than kLargestRoundedSigma cells; for running sums that
///   could exceed 2^61 cells with batches of twice the expected size (an overflow does not harm
///   privacy, but the result is useless); for recipes whose rounding errors require the noise to be
///   enlarged by a factor above kLargestNoiseFactor.
void check_exact_range(const ComponentUse& aggregator, Adjacency adjacency, const PlanNumbers& plan,
                       const CorrelatedPlan* correlated);

/// The largest number of examples in a step of a correlated plan; a run refuses larger steps.
/// Returns twice the largest expected number, at most kMostBatchRows; under `add_or_remove_one`,
/// where the number is private, always kMostBatchRows.
std::uint64_t most_rows(Adjacency adjacency, const PlanNumbers& plan);

}  // namespace privgrad::core
