// Checks beforehand that exact sums and their noise stay within the ranges that hold them.
#pragma once

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// Checks, from public numbers alone, that exact sums and their noise fit into their ranges
/// whatever the batches, so that no run has to look.
/// \param correlated  null: releases are independent.
/// \throws ManifestError for noise of more than kLargestRoundedSigma cells; for running sums that
///   could leave 64 bits (they would wrap, which is harmless but useless); for recipes whose
///   roundings would take more than kLargestNoiseFactor of noise.
void check_exact_range(const Manifest& manifest, const PlanNumbers& plan,
                       const CorrelatedPlan* correlated);

/// The most examples that a batch of a correlated plan can have, as far as that is public: under
/// `add_or_remove_one` there is no limit.
std::uint64_t most_rows(const Manifest& manifest, const PlanNumbers& plan);

}  // namespace privgrad::core
