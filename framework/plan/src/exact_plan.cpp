#include "privgrad/plan/exact_plan.hpp"

#include <algorithm>
#include <cmath>

#include "privgrad/error.hpp"
#include "privgrad/trust/correlated_mechanism.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

constexpr auto kCells = static_cast<double>(kExactLevels);

double most_noise(const PlanNumbers& plan, const CorrelatedPlan* correlated) {
  double most = 0.0;
  for (const double multiplier : plan.noise_multiplier) most = std::max(most, multiplier);
  if (correlated == nullptr) return most;
  for (const CorrelatedPart& part : correlated->parts) {
    for (std::uint64_t step = 0; step < part.recipes.steps(); ++step) {
      most = std::max(most, part.recipes.own_multiplier(step));
      if (part.recipes.window() == 0) continue;
      double all = 0.0;
      for (const NoiseTerm& term : part.recipes.noise(step)) all += std::fabs(term.multiplier);
      most = std::max(most, all);
    }
  }
  return most;
}

/// Twice the expected size, for samplers whose batches vary a little.
std::uint64_t planned_rows(const PlanNumbers& plan) {
  const double largest = *std::ranges::max_element(plan.batch_size);
  const double most = std::min(std::ceil(2.0 * largest), static_cast<double>(kMostBatchRows));
  return static_cast<std::uint64_t>(std::max(1.0, most));
}

constexpr const char* kRemedy = "; use arithmetic: float, which is listed as unaccounted";

}  // namespace

std::uint64_t most_rows(Adjacency adjacency, const PlanNumbers& plan) {
  // If examples may be added or removed, their number is private, and so may be the sizes of
  // batches.
  if (adjacency == Adjacency::add_or_remove_one) return kMostBatchRows;
  return planned_rows(plan);
}

void check_exact_range(const ComponentUse& aggregator, Adjacency adjacency, const PlanNumbers& plan,
                       const CorrelatedPlan* correlated) {
  aggregator.with_position([&] {
    const double noise = most_noise(plan, correlated);
    if (!(noise * kCells <= kLargestRoundedSigma)) {
      throw ConfigError("adds noise of a multiplier of " + format_number(noise) +
                        ", allowed in exact arithmetic is " +
                        format_number(kLargestRoundedSigma / kCells) + kRemedy);
    }
    if (correlated == nullptr) return;
    constexpr double kRoom = 0x1p61 / kCells;
    const double contributions = correlated->parts.front().recipes.remembered_steps() *
                                 static_cast<double>(planned_rows(plan));
    if (!(contributions <= kRoom)) {
      throw ConfigError("adds up " + format_number(contributions) +
                        " contributions, allowed in exact arithmetic are " + format_number(kRoom) +
                        kRemedy);
    }
    const double factor =
        exact_noise_factor(correlated->parts, plan.parameters, most_rows(adjacency, plan));
    if (!(factor <= kLargestNoiseFactor)) {
      throw ConfigError("would need " + format_number(factor) +
                        " times its noise for the roundings of exact arithmetic, allowed is 1 + "
                        "1e-6" +
                        kRemedy);
    }
  });
}

}  // namespace privgrad::core
