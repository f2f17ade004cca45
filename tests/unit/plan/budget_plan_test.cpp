#include "budget_plan.hpp"

#include <cmath>
#include <vector>

#include "counted_manifest.hpp"

using namespace privgrad;
using core::BudgetPlan;
using core::Charge;
using core::Manifest;
using core::plan_budget;

namespace {

std::vector<Charge> nothing_beside(std::uint64_t) { return {}; }

}  // namespace

TEST_CASE("a budget pays for the first steps that fit, and is spent to the last bit",
          "[budget][privacy]") {
  const Manifest manifest = counted();
  const auto affordable = [&](double noise, double target) {
    return plan_budget(manifest, full_steps(5, noise), target, nothing_beside, false)
        .affordable_steps;
  };
  // A step with noise 1 costs 1, with noise 2 a quarter.
  CHECK(affordable(1.0, 3.0) == 3);
  CHECK(affordable(1.0, std::nextafter(3.0, 0.0)) == 2);
  CHECK(affordable(1.0, 3.9) == 3);
  CHECK(affordable(2.0, 1.0) == 4);
  CHECK(affordable(2.0, 1.25) == 5);  // all of the steps
  CHECK(affordable(2.0, 100.0) == 5);
}

TEST_CASE("the stated cost is that of the affordable steps, by every accountant", "[budget]") {
  const Manifest manifest = counted({"privacy.also=[guessing]"});
  const BudgetPlan budget = plan_budget(manifest, full_steps(5, 1.0), 3.5, nothing_beside, false);
  REQUIRE(budget.accountants.size() == 2);
  for (const core::AccountantReport& one : budget.accountants) {
    CHECK(one.epsilon.value == 3.0);
    CHECK(one.steps == 3);
  }
  CHECK(budget.accountants.front().name == "counting");
  CHECK(budget.accountants.back().epsilon.bound == BoundKind::estimate);
  CHECK(budget.event == Event::self_composed(3, Event::gaussian(1.0)));
}

TEST_CASE("without a target all steps are paid for", "[budget]") {
  const Manifest manifest = counted();
  const BudgetPlan budget =
      plan_budget(manifest, full_steps(50, 0.5), std::nullopt, nothing_beside, false);
  CHECK(budget.affordable_steps == 50);
  CHECK(budget.accountants.front().epsilon.value == 200.0);
}

TEST_CASE("releases beside the steps are paid for first, and become more with the steps",
          "[budget][privacy]") {
  // A count before the steps, and a report after every second step, cost 1 each, as steps do: n
  // steps cost 1 + n + n/2, so 3 steps cost 5, and 4 steps cost 7.
  const Manifest manifest = counted();
  const auto beside = [](std::uint64_t steps) {
    std::vector<Charge> all{beside_steps(0, 1.0, "count")};
    for (std::uint64_t i = 1; i <= steps / 2; ++i)
      all.push_back(beside_steps(2 * i, 1.0, "report"));
    return all;
  };
  const BudgetPlan budget = plan_budget(manifest, full_steps(9, 1.0), 5.0, beside, false);
  CHECK(budget.affordable_steps == 3);
  CHECK(budget.beside == beside(3));
  CHECK(budget.accountants.front().epsilon.value == 5.0);
  CHECK(budget.event == Event::self_composed(5, Event::gaussian(1.0)));
}

TEST_CASE("a budget that pays for no step says what it is spent on", "[budget]") {
  const Manifest manifest = counted();  // target_epsilon: 3
  const auto beside = [](std::uint64_t) {
    return std::vector<Charge>{beside_steps(0, 1.0, "count of rows"),
                               beside_steps(0, 0.5, "means")};
  };
  CHECK_THROWS_WITH(
      plan_budget(manifest, full_steps(9, 1.0), 3.0, beside, false),
      ContainsSubstring("privacy.target_epsilon: a budget of 3 does not pay for the 2 releases "
                        "beside the steps (count of rows), which cost 5"));
  CHECK_THROWS_WITH(plan_budget(manifest, full_steps(9, 0.5), 3.0, nothing_beside, false),
                    ContainsSubstring("does not pay for a single step, which costs 4"));
}

TEST_CASE("answers about charges that are upper bounds are neither exact nor bounded from below",
          "[budget]") {
  const auto answer = [](const char* accountant, bool are_bounds) {
    const Manifest manifest = counted({std::string("privacy.accountant=") + accountant});
    return plan_budget(manifest, full_steps(2, 1.0), std::nullopt, nothing_beside, are_bounds)
        .accountants.front()
        .epsilon;
  };
  CHECK(answer("exact", false).bound == BoundKind::exact);
  CHECK(answer("exact", true).bound == BoundKind::upper);
  CHECK(answer("doubling", false).lower == 4.0);
  CHECK_FALSE(answer("doubling", true).lower);
}

TEST_CASE("accountants that contradict each other are refused", "[budget][privacy]") {
  // "doubling" proves at least 2n for n steps, "counting" at most n.
  const Manifest manifest = counted({"privacy.also=[doubling]"});
  CHECK_THROWS_WITH(
      plan_budget(manifest, full_steps(2, 1.0), std::nullopt, nothing_beside, false),
      ContainsSubstring("privacy.also") &&
          ContainsSubstring("doubling proves that epsilon is at least 4, counting that it is at "
                            "most 2"));
  // An estimate proves nothing that a proof could contradict.
  const Manifest guarded = counted({"privacy.accountant=doubling", "privacy.also=[guessing]"});
  CHECK_NOTHROW(plan_budget(guarded, full_steps(2, 1.0), std::nullopt, nothing_beside, false));
}

TEST_CASE("release mode refuses a run without a finite epsilon", "[budget][privacy]") {
  Manifest manifest = counted({"privacy.accountant=endless"});
  const auto plan = [&] {
    return plan_budget(manifest, full_steps(2, 1.0), std::nullopt, nothing_beside, false);
  };
  CHECK(std::isinf(plan().accountants.front().epsilon.value));
  manifest.mode = core::Mode::release;
  CHECK_THROWS_AS(plan(), PrivacyError);
}

TEST_CASE("a run without noise has the cost of no privacy", "[budget]") {
  const BudgetPlan budget = core::no_budget(counted().accountant, 7);
  CHECK(budget.affordable_steps == 7);
  CHECK(budget.event == Event::non_private());
  CHECK(std::isinf(budget.accountants.front().epsilon.value));
  CHECK(budget.beside.empty());
}
