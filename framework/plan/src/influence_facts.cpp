#include "privgrad/plan/influence_facts.hpp"

#include <vector>

#include "privgrad/influence.hpp"

namespace privgrad::core {

std::optional<InfluenceFacts> influence_facts(const PlanNumbers& plan) {
  if (!plan.uniform_noise) return std::nullopt;
  const std::vector<double> uniform(plan.influence.size(), *plan.uniform_noise);
  InfluenceFacts facts{.weighted_noise = weighted_noise(plan.influence, plan.noise_multiplier),
                       .uniform = weighted_noise(plan.influence, uniform)};
  if (plan.costs_inverse_square) {
    facts.budget = budget_of_noise(plan.noise_multiplier);
    facts.least = least_weighted_noise(plan.influence, *facts.budget);
  }
  return facts;
}

}  // namespace privgrad::core
