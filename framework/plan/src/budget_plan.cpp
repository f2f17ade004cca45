#include "budget_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/trust/calibrate.hpp"
#include "privgrad/trust/checked_answer.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

/// Finds how many charges, counted from the first, the budget pays for.
class Affordable {
 public:
  Affordable(const Manifest& manifest, std::span<const Charge> charges, const BesideCharges& beside,
             double target)
      : manifest_(manifest), charges_(charges), beside_(beside), target_(target) {}

  std::uint64_t steps() const {
    const std::uint64_t all = charges_.size();
    if (cost_of(all) <= target_) return all;
    const std::uint64_t fitting =
        largest_count([&](std::uint64_t count) { return cost_of(std::min(count, all)); }, target_);
    if (fitting == 0) refuse();
    return fitting;
  }

 private:
  double cost_of(std::uint64_t count) const {
    return guard_answer(manifest_, beside_(count), charges_.first(count)).value;
  }

  /// Refuses a budget that is spent before or with the first step.
  [[noreturn]] void refuse() const {
    const std::string budget = "a budget of " + format_number(*manifest_.target_epsilon);
    const std::vector<Charge> beside = beside_(0);
    const double cost = cost_of(0);
    if (cost > target_) {
      throw privacy_error_at(manifest_, "privacy.target_epsilon",
                             budget + " does not pay for the " + std::to_string(beside.size()) +
                                 " releases beside the steps (" + beside.front().what +
                                 "), which cost " + format_number(cost));
    }
    throw privacy_error_at(
        manifest_, "privacy.target_epsilon",
        budget + " does not pay for a single step, which costs " + format_number(cost_of(1)));
  }

  const Manifest& manifest_;
  std::span<const Charge> charges_;
  const BesideCharges& beside_;
  double target_;
};

/// If one accountant's lower bound exceeds another's upper bound, one of the two proofs is wrong,
/// but it is unknown which one.
void refuse_contradictions(const Manifest& manifest,
                           const std::vector<AccountantReport>& accountants) {
  constexpr double kRounding = 1e-9;
  for (const AccountantReport& one : accountants) {
    if (!one.epsilon.lower) continue;
    for (const AccountantReport& other : accountants) {
      if (other.epsilon.bound == BoundKind::estimate) continue;
      if (*one.epsilon.lower <= other.epsilon.value * (1.0 + kRounding)) continue;
      throw privacy_error_at(manifest, "privacy.also",
                             "the accountants contradict each other: " + one.name +
                                 " proves that epsilon is at least " +
                                 format_number(*one.epsilon.lower) + ", " + other.name +
                                 " that it is at most " + format_number(other.epsilon.value) +
                                 "; one of them is wrong, please report it");
    }
  }
}

void refuse_infinite_epsilon(const Manifest& manifest, const PrivacyAnswer& epsilon) {
  if (manifest.mode != Mode::release || std::isfinite(epsilon.value)) return;
  throw PrivacyError(manifest.position_of("schedules.noise_multiplier") +
                     ": error: release mode refuses a run of which no finite epsilon can be "
                     "proved; use more noise (schedules.noise_multiplier)");
}

}  // namespace

BudgetPlan plan_budget(const Manifest& manifest, std::span<const Charge> charges,
                       std::optional<double> target, const BesideCharges& beside, bool are_bounds) {
  BudgetPlan budget;
  budget.affordable_steps =
      target ? Affordable(manifest, charges, beside, *target).steps() : charges.size();
  budget.beside = beside(budget.affordable_steps);
  const auto paid = charges.first(budget.affordable_steps);
  budget.accountants.push_back(
      {manifest.accountant.name(), guard_answer(manifest, budget.beside, paid), paid.size()});
  refuse_infinite_epsilon(manifest, budget.accountants.front().epsilon);
  for (const ComponentUse& use : manifest.also)
    budget.accountants.push_back(
        {use.name(), answer_of(use, manifest, budget.beside, paid), paid.size()});
  refuse_contradictions(manifest, budget.accountants);
  if (are_bounds) {
    for (AccountantReport& one : budget.accountants)
      one.epsilon = of_charges_that_are_bounds(std::move(one.epsilon));
  }
  std::vector<Event> costs;
  for (const Charge& charge : budget.beside) costs.push_back(charge.cost);
  for (const Charge& charge : paid) costs.push_back(charge.cost);
  budget.event = compose_runs(costs);
  return budget;
}

BudgetPlan no_budget(const ComponentUse& accountant, std::uint64_t steps) {
  BudgetPlan budget;
  budget.affordable_steps = steps;
  budget.event = Event::non_private();
  budget.accountants.push_back({accountant.name(),
                                {.value = std::numeric_limits<double>::infinity(),
                                 .bound = BoundKind::exact,
                                 .lower = {},
                                 .note = "no noise"},
                                steps});
  return budget;
}

}  // namespace privgrad::core
