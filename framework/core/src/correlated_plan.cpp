#include "privgrad/core/correlated_plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace privgrad::core {

std::vector<Charge> CorrelatedPlan::charges() const {
  const std::uint64_t steps = recipes.steps();
  const std::uint64_t block = std::max<std::uint64_t>(1, (steps + 63) / 64);
  std::vector<Charge> charges;
  charges.reserve(steps);
  double paid = 0.0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    Event price = Event::nothing();
    if (step % block == 0) {
      const double due = cost.worst_after[std::min(step + block, steps) - 1];
      // Rounded down, for the difference, the root and the quotient.
      if (due > paid) price = Event::gaussian((1.0 - 0x1p-50) / std::sqrt(due - paid));
      paid = due;
    }
    charges.push_back({step, Event::gaussian(recipes.own_multiplier(step)), std::move(price)});
  }
  return charges;
}

RhoOfExamples CorrelatedPlan::rho(const PublicOrder& order, std::uint64_t rows,
                                  Adjacency adjacency) const {
  const double kappa = sensitivity_of_unit_bound(adjacency);
  const std::vector<std::uint64_t> counts = participation->counts();
  std::vector<double> values;
  values.reserve(rows);
  RhoOfExamples result;
  result.fewest_steps = recipes.steps();
  double sum = 0.0;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint32_t group = order.group_of(static_cast<std::uint32_t>(row));
    values.push_back(kappa * kappa * cost.of_groups.at(group) / 2.0);
    sum += values.back();
    result.fewest_steps = std::min(result.fewest_steps, counts[group]);
    result.most_steps = std::max(result.most_steps, counts[group]);
  }
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) {
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
  };
  result.least = values.front();
  result.first_quartile = quantile(0.25);
  result.median = quantile(0.5);
  result.mean = sum / static_cast<double>(rows);
  result.third_quartile = quantile(0.75);
  result.most = kappa * kappa * cost.worst_after.back() / 2.0;
  return result;
}

nlohmann::json to_json(const RhoOfExamples& rho) {
  return {{"steps_of_an_example", {rho.fewest_steps, rho.most_steps}},
          {"rho",
           {{"min", rho.least},
            {"first_quartile", rho.first_quartile},
            {"median", rho.median},
            {"mean", rho.mean},
            {"third_quartile", rho.third_quartile},
            {"max", rho.most}}}};
}

CorrelatedPlan CorrelatedPlanner::plan(CorrelatedRecipes recipes, PublicOrder& order,
                                       const std::vector<double>& batch_sizes) {
  const bool same_order =
      participation_ && batch_sizes == batch_sizes_ && participation_->steps() == recipes.steps();
  if (!same_order) {
    participation_ = std::make_shared<const Participation>(
        Participation::drawn(order, recipes.steps(), *random_));
    batch_sizes_ = batch_sizes;
    recipes_.reset();
  }
  const auto factor = recipes_ ? recipes.noise_relative_to(*recipes_) : std::nullopt;
  if (factor) {
    return {std::move(recipes), random_, participation_, with_noise_times(cost_, *factor)};
  }
  cost_ = cost_of(recipes, *participation_);
  recipes_ = recipes;
  return {std::move(recipes), random_, participation_, cost_};
}

}  // namespace privgrad::core
