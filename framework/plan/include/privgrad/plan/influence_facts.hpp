// How good a plan's noise is by the influence that it was made from.
#pragma once

#include <optional>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// How good a plan's noise is by the influence that it was made from. All sums are about releases
/// whose noise is independent from step to step.
struct InfluenceFacts {
  double weighted_noise = 0.0;  ///< Sum of q_t sigma_t^2, with the noise of the plan.
  /// With uniform noise of the plan's own guarantee, by its own accountant.
  double uniform = 0.0;
  /// The smallest at this guarantee, and the sum of 1/sigma_t^2; only where a step costs 1/sigma^2.
  std::optional<double> least{}, budget{};
};
/// \returns nothing for a plan without an influence, without noise, or with noise that is
///   correlated: what its sum does at the end is not the sum of what its steps do.
std::optional<InfluenceFacts> influence_facts(const Plan& plan);

}  // namespace privgrad::core
