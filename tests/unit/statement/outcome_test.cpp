#include "privgrad/statement/outcome.hpp"

#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "counted_manifest.hpp"
#include "privgrad/plan/federated_plan.hpp"

using namespace privgrad;
using core::Outcome;
using core::Plan;
using core::RunStatus;

namespace {

/// Returns three steps, of which the budget pays for two, and three other releases.
Plan planned() {
  Plan plan;
  plan.planned_steps = 3;
  plan.affordable_steps = 2;
  plan.charges = full_steps(3, 1.0);
  plan.noise_multiplier = {1.0, 1.0, 1.0};
  plan.beside = {beside_steps(0, 2.0, "count"), beside_steps(2, 2.0, "report"),
                 beside_steps(0, 2.0, "last")};
  plan.event = Event::gaussian(7.0);
  plan.accountants = {{"counting", {2.75, BoundKind::upper, {}, ""}, 2}};
  return plan;
}

Plan with_client(Plan plan, double noise) {
  auto client = std::make_shared<Plan>(planned());
  client->charges = full_steps(3, noise);
  client->noise_multiplier = {noise, noise, noise};
  client->affordable_steps = 1;
  client->accountants.front().epsilon.value = 0.5;
  auto federated = std::make_shared<core::FederatedPlan>();
  federated->clients.push_back({.plan = client, .rows = {0}, .labels = {}});
  plan.federated = federated;
  return plan;
}

}  // namespace

TEST_CASE("a run whose releases decide its end is accounted for in full", "[outcome][privacy]") {
  Plan plan = planned();
  CHECK_FALSE(is_accounted_in_full(plan, RunStatus::completed));
  CHECK_FALSE(is_accounted_in_full(plan, RunStatus::interrupted));
  CHECK(is_accounted_in_full(plan, RunStatus::diverged));
  plan.is_accounted_in_full = true;
  CHECK(is_accounted_in_full(plan, RunStatus::completed));
}

TEST_CASE("the accounted event is the plan's where the ledger's lines are not the cost",
          "[outcome][privacy]") {
  Plan plan = planned();
  Outcome outcome;
  outcome.status = RunStatus::completed;
  CHECK_FALSE(outcome.accounted_event(plan));
  outcome.status = RunStatus::diverged;
  CHECK(outcome.accounted_event(plan) == plan.event);
  outcome.status = RunStatus::completed;
  plan.noise_adapts.emplace();
  CHECK(outcome.accounted_event(plan) == plan.event);
  CHECK_FALSE(outcome.accounted_event(with_client(plan, 2.0)));  // each client has an event
}

TEST_CASE("a statement has the charges that were paid", "[outcome][privacy]") {
  const Plan plan = planned();
  Outcome outcome;
  CHECK(outcome.stated(plan) == plan);
  // Of the other releases, only the first two were paid for.
  outcome.paid.beside = 2;
  CHECK(outcome.stated(plan).beside == std::vector<core::Charge>{plan.beside[0], plan.beside[1]});
  outcome.paid.beside = 9;
  CHECK(outcome.stated(plan).beside == plan.beside);
}

TEST_CASE("a statement has the noise that was chosen", "[outcome][privacy]") {
  Outcome outcome;
  outcome.noise = core::NoiseRecord{.noise_multiplier = {4.0},
                                    .steps = full_steps(1, 4.0),
                                    .checks = {beside_steps(1, 3.0, "check")},
                                    .measured_at = {},
                                    .measured = {}};
  const core::PlanNumbers stated = outcome.stated(planned());
  CHECK(stated.noise_multiplier == std::vector<double>{4.0});
  CHECK(stated.charges == full_steps(1, 4.0));
  CHECK(stated.beside == outcome.noise->checks);
}

TEST_CASE("a federated statement is about the client that was charged most", "[outcome][privacy]") {
  const Plan plan = with_client(planned(), 2.0);
  Outcome outcome;
  CHECK(outcome.stated(plan).charges == plan.charges);
  outcome.client = 0;
  const core::PlanNumbers stated = outcome.stated(plan);
  CHECK(stated.charges == full_steps(3, 2.0));
  CHECK(stated.noise_multiplier == std::vector<double>{2.0, 2.0, 2.0});
  CHECK(stated.affordable_steps == 1);
  CHECK(stated.epsilon().value == 0.5);
}

TEST_CASE("an interrupted run may have cost all that its plan can cost", "[outcome][privacy]") {
  Plan plan = planned();
  const Outcome outcome = outcome_of_all(plan);
  CHECK(outcome.status == RunStatus::unfinished);
  CHECK(outcome.paid.charged == 2);
  CHECK(outcome.paid.accounted == 2);
  CHECK(outcome.epsilon == plan.epsilon());
  // With adaptive noise, later steps may cost less than planned, so all may be affordable.
  plan.noise_adapts.emplace();
  CHECK(outcome_of_all(plan).paid.accounted == 3);
}

TEST_CASE("each status has its own word", "[outcome]") {
  std::set<std::string_view> words;
  for (int i = 1; i <= 7; ++i) words.insert(to_text(static_cast<RunStatus>(i)));
  CHECK(words.size() == 7);
  CHECK_FALSE(words.contains("?"));
}
