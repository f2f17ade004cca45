#pragma once

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// That exact sums and their noise fit where they are kept, whatever the batches: from public
/// numbers, so that no run has to look.
/// \param correlated  null: releases are independent.
/// \throws ManifestError for noise of more than kLargestRoundedSigma cells; for running sums that
///   could leave 64 bits (they would wrap, which is harmless but useless); for recipes whose
///   roundings would take more than kLargestNoiseFactor of noise.
void check_exact_range(const Manifest& manifest, const PlanNumbers& plan,
                       const CorrelatedPlan* correlated);

/// Examples that a batch of a correlated plan can have, as far as that is public: under
/// `add_or_remove_one` any number.
std::uint64_t most_rows(const Manifest& manifest, const PlanNumbers& plan);

}  // namespace privgrad::core
