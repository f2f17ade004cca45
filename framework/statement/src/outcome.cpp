#include "privgrad/statement/outcome.hpp"

#include "privgrad/plan/federated_plan.hpp"

namespace privgrad::core {
namespace {

/// Returns `numbers` with the charges and schedules of `client`, which was charged most. (Another
/// client may have been planned to cost more, but took part less.) The other accountants' answers
/// stay: each already is about the client that costs most by that accountant.
PlanNumbers with_charges_of(const PlanNumbers& client, PlanNumbers numbers) {
  numbers.charges = client.charges;
  numbers.beside = client.beside;
  numbers.event = client.event;
  numbers.accountants.front() = client.accountants.front();
  numbers.affordable_steps = client.affordable_steps;
  numbers.noise_multiplier = client.noise_multiplier;
  numbers.clip_norm = client.clip_norm;
  numbers.learning_rate = client.learning_rate;
  numbers.batch_size = client.batch_size;
  return numbers;
}

}  // namespace

std::string_view to_text(RunStatus status) {
  switch (status) {
    case RunStatus::completed:
      return "completed";
    case RunStatus::budget_exhausted:
      return "budget_exhausted";
    case RunStatus::stopped_early:
      return "stopped_early";
    case RunStatus::interrupted:
      return "interrupted";
    case RunStatus::diverged:
      return "diverged";
    case RunStatus::untrained:
      return "untrained";
    case RunStatus::unfinished:
      return "unfinished";
  }
  return "?";
}

bool is_accounted_in_full(const PlanNumbers& plan, RunStatus status) {
  return plan.is_accounted_in_full || status == RunStatus::diverged;
}

PlanNumbers Outcome::stated(const Plan& plan) const {
  PlanNumbers numbers = static_cast<const PlanNumbers&>(plan);
  if (client) numbers = with_charges_of(*plan.federated->clients[*client].plan, numbers);
  // The charges of reports come last, and all are equal.
  if (paid.beside && *paid.beside < numbers.beside.size())
    numbers.beside.erase(numbers.beside.begin() + static_cast<std::ptrdiff_t>(*paid.beside),
                         numbers.beside.end());
  if (noise) {
    numbers.noise_multiplier = noise->noise_multiplier;
    numbers.charges = noise->steps;
    numbers.beside = noise->checks;
  }
  return numbers;
}

std::optional<Event> Outcome::accounted_event(const Plan& plan) const {
  if (plan.federated && !plan.federated->at_server) return std::nullopt;
  if (!plan.noise_adapts && !is_accounted_in_full(plan, status)) return std::nullopt;
  return plan.event;
}

Outcome outcome_of_all(const PlanNumbers& plan) {
  // Adaptive noise may make later steps cheaper, so the budget may pay for all planned steps.
  const std::uint64_t steps = plan.noise_adapts ? plan.steps() : plan.affordable_steps;
  return {.status = RunStatus::unfinished,
          .steps = 0,
          .paid = {.charged = steps, .accounted = steps},
          .epsilon = plan.epsilon(),
          .noise = {},
          .client = {},
          .data = {}};
}

}  // namespace privgrad::core
