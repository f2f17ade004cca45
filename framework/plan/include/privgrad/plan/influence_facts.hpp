// Rates a plan's noise by the influence from which the noise was computed.
#pragma once

#include <optional>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// All sums are over the steps t, with the influence q_t and the noise multiplier sigma_t of the
/// step, and assume that the noise is independent from step to step.
struct InfluenceFacts {
  double weighted_noise = 0.0;  ///< Sum of q_t sigma_t^2 with the noise of the plan.
  /// The sum for uniform noise with the same guarantee, by the same accountant.
  double uniform = 0.0;
  /// The smallest weighted_noise at this guarantee, and the sum of 1/sigma_t^2; set only if the
  /// cost of all steps depends only on that sum.
  std::optional<double> least{}, budget{};
};
/// \returns nothing for a plan without influence, noise or target, and for correlated noise, whose
///   effect at the end is not the sum of the effects of single steps.
std::optional<InfluenceFacts> influence_facts(const PlanNumbers& plan);

}  // namespace privgrad::core
