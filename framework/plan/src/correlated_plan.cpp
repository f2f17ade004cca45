#include "privgrad/plan/correlated_plan.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

std::vector<Charge> CorrelatedPlan::charges() const {
  const std::uint64_t steps = this->steps();
  const std::uint64_t block = std::max<std::uint64_t>(1, (steps + 63) / 64);
  std::vector<Charge> charges;
  charges.reserve(steps);
  double paid = 0.0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    Event price = Event::nothing();
    if (step % block == 0) {
      const double due = order->cost.worst_after[std::min(step + block, steps) - 1];
      // Rounded down by more than the errors of the difference, the root and the quotient.
      if (due > paid) price = Event::gaussian((1.0 - 0x1p-50) / std::sqrt(due - paid));
      paid = due;
    }
    charges.push_back({step, release_of(parts, step), std::move(price)});
  }
  return charges;
}

RhoOfExamples DrawnOrder::rho(const PublicOrder* order, std::uint64_t rows, std::uint64_t steps,
                              Adjacency adjacency) const {
  const double kappa = sensitivity_of_unit_bound(adjacency);
  if (separation) {
    const double most = kappa * kappa * cost.worst_after.back() / 2.0;
    return {{most, most, most, most, most, most},
            {0, separation->most_of(steps)},
            separation->min_separation};
  }
  const std::vector<std::uint64_t> counts = participation->counts();
  std::vector<double> values;
  values.reserve(rows);
  Count fewest_steps = steps, most_steps = 0;
  double sum = 0.0;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint32_t group = order->group_of(static_cast<std::uint32_t>(row));
    values.push_back(kappa * kappa * cost.of_groups.at(group) / 2.0);
    sum += values.back();
    fewest_steps = std::min(fewest_steps, counts[group]);
    most_steps = std::max(most_steps, counts[group]);
  }
  std::ranges::sort(values);
  const auto quantile = [&](double q) {
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
  };
  return {.rho = {.min = values.front(),
                  .first_quartile = quantile(0.25),
                  .median = quantile(0.5),
                  .mean = sum / static_cast<double>(rows),
                  .third_quartile = quantile(0.75),
                  .max = kappa * kappa * cost.worst_after.back() / 2.0},
          .steps_of_an_example = {fewest_steps, most_steps}};
}

Event release_of(std::span<const CorrelatedPart> parts, std::uint64_t step) {
  std::vector<Event> releases;
  for (const CorrelatedPart& part : parts) {
    if (step < part.first_step) continue;
    releases.push_back(Event::gaussian(part.recipes.own_multiplier(step - part.first_step)));
  }
  return releases.size() == 1 ? releases.front() : Event::composed(std::move(releases));
}

namespace {

CorrelatedPart part_of(const UsesGradientDifferences& differences, GradientDifference kind,
                       std::uint64_t first_step, std::uint64_t steps) {
  CorrelatedPart part{
      CorrelatedRecipes::of(
          [&](std::uint64_t step) { return differences.difference_recipe(kind, step); },
          steps - first_step),
      first_step};
  for (std::uint64_t step = first_step; step < steps; ++step) {
    const double bound = differences.difference_bound(kind, step);
    // Two gradients clipped to the clip norm differ by at most twice the clip norm.
    if (!(bound >= 0.0 && bound <= 2.0)) {
      throw PluginError("the aggregator bounds differences of gradients of step " +
                        std::to_string(step) + " by " + format_number(bound) +
                        " clip norms, expected a number in [0, 2]");
    }
    part.bounds.push_back(bound);
  }
  return part;
}

/// The factor from the noise of `others` to the noise of `parts` (the smallest, if the parts'
/// factors differ by rounding errors); nothing if the two differ in anything else.
std::optional<double> noise_relative_to(std::span<const CorrelatedPart> parts,
                                        std::span<const CorrelatedPart> others) {
  if (parts.size() != others.size()) return std::nullopt;
  std::optional<double> least;
  double most = 0.0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].first_step != others[i].first_step || parts[i].bounds != others[i].bounds)
      return std::nullopt;
    const auto factor = parts[i].recipes.noise_relative_to(others[i].recipes);
    if (!factor) return std::nullopt;
    least = std::min(least.value_or(*factor), *factor);
    most = std::max(most, *factor);
  }
  if (most > *least * (1.0 + 1e-12)) return std::nullopt;
  return least;
}

}  // namespace

std::vector<CorrelatedPart> parts_of(const Aggregator& aggregator,
                                     const UsesGradientDifferences& differences,
                                     std::uint64_t steps) {
  const std::uint64_t epoch = differences.epoch_steps();
  if (epoch == 0) throw PluginError("the aggregator has epochs of 0 steps, expected at least 1");
  std::vector<CorrelatedPart> parts;
  parts.push_back(
      {CorrelatedRecipes::of([&](std::uint64_t step) { return aggregator.recipe(step); }, steps)});
  parts.push_back(part_of(differences, GradientDifference::since_anchor, 0, steps));
  if (epoch < steps)
    parts.push_back(part_of(differences, GradientDifference::between_anchors, epoch, steps));
  return parts;
}

CorrelatedPlan CorrelatedPlanner::plan(std::vector<CorrelatedPart> parts, PublicOrder& order,
                                       const std::vector<double>& batch_sizes) {
  const std::uint64_t steps = parts.front().recipes.steps();
  const bool same_order =
      participation_ && batch_sizes == batch_sizes_ && participation_->steps() == steps;
  if (!same_order) {
    participation_ =
        std::make_shared<const Participation>(Participation::drawn(order, steps, *random_));
    batch_sizes_ = batch_sizes;
    parts_.clear();
  }
  CorrelatedCost cost = cost_with(parts, [&] { return cost_of(parts, *participation_); });
  return {std::move(parts), DrawnOrder{random_, participation_, std::nullopt, std::move(cost)}};
}

CorrelatedPlan CorrelatedPlanner::plan(std::vector<CorrelatedPart> parts,
                                       const Separation& separation) {
  CorrelatedCost cost =
      cost_with(parts, [&] { return separated_cost(parts.front().recipes, separation); });
  return {std::move(parts), DrawnOrder{random_, nullptr, separation, std::move(cost)}};
}

/// The cost of these parts, derived from the cost of the previous parts if only a factor of the
/// noise differs.
CorrelatedCost CorrelatedPlanner::cost_with(const std::vector<CorrelatedPart>& parts,
                                            const std::function<CorrelatedCost()>& computed) {
  if (const auto factor = noise_relative_to(parts, parts_)) return with_noise_times(cost_, *factor);
  cost_ = computed();
  parts_ = parts;
  return cost_;
}

}  // namespace privgrad::core
