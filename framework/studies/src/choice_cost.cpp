#include "privgrad/studies/choice_cost.hpp"

#include <cmath>
#include <optional>
#include <utility>

#include "privgrad/manifest/utf8.hpp"
#include "privgrad/trust/certified_accountant.hpp"
#include "privgrad/trust/checked_answer.hpp"

namespace privgrad::core {
namespace {

/// An accountant that has composed all runs of the plans.
ComponentPtr<Accountant> after(const ComponentUse& use, Adjacency adjacency,
                               const std::vector<CountedPlan>& plans) {
  auto accountant = make_guard(use);
  accountant->start(adjacency);
  for (const auto& [plan, runs] : plans) {
    for (const CountedEvent& part : flatten(plan->event)) {
      if (const auto why = accountant->refuses(part.event)) {
        throw PrivacyError(
            with_alternatives(*why, part.event, adjacency, *use.catalog, *use.component));
      }
      accountant->compose(part.event, part.count * runs);
    }
  }
  return accountant;
}

/// A reason why no accountant can prove a cost for these plans; "" if there is none.
std::string obstacle(const std::vector<const Plan*>& plans) {
  for (const Plan* plan : plans) {
    if (plan->manifest->noise_off) return "an arm is without privacy";
    if (plan->manifest->adjacency != plans.front()->manifest->adjacency) {
      return "the arms have different adjacencies";
    }
  }
  return "";
}

template <class Compute>
ChoiceCost proved(const std::vector<const Plan*>& plans, Compute compute) {
  ChoiceCost cost;
  cost.why = obstacle(plans);
  if (!cost.why.empty()) return cost;
  try {
    PrivacyAnswer answer = compute();
    if (answer.bound == BoundKind::estimate) {
      cost.why = "the accountant has an estimate only";
    } else if (!std::isfinite(answer.value)) {
      cost.why = "the accountant proves no finite epsilon";
    } else {
      cost.epsilon = std::move(answer);
    }
  } catch (const PrivacyError& problem) {
    cost.why = shown_line(problem.what());
  } catch (const NumericError& problem) {
    cost.why = shown_line(problem.what());
  }
  return cost;
}

/// An accountant's proof about one event.
/// \throws PrivacyError if the accountant refuses the event, or only estimates its cost.
PrivacyAnswer proof(ComponentPtr<Accountant> accountant, const std::string& name,
                    Adjacency adjacency, const Event& event, double delta) {
  accountant->start(adjacency);
  accountant->compose(event, 1);
  return checked_guard(checked(accountant->epsilon(delta), name), name);
}

/// The smallest proved answer of all loaded accountants, with default parameters, and the name of
/// its accountant.
/// \throws PrivacyError if no accountant has a proof.
std::pair<PrivacyAnswer, std::string> least_proof(const Catalog& catalog, Adjacency adjacency,
                                                  const Event& event, double delta) {
  std::optional<std::pair<PrivacyAnswer, std::string>> least;
  for (const Component* component : catalog.components_of(Accountant::kKind)) {
    const std::string& name = component->factory.info.name;
    try {
      const Component& found = catalog.find<Accountant>(component->full_name());
      const Params defaults =
          Params::make(found.full_name(), found.factory.info.params, Value::Object{});
      PrivacyAnswer answer = proof(make_guard(found, defaults, certifier_of(found, catalog)), name,
                                   adjacency, event, delta);
      if (!least || answer.value < least->first.value) least.emplace(std::move(answer), name);
    } catch (const PrivacyError&) {
      continue;  // the accountant refuses the event, or only estimates
    } catch (const ConfigError&) {
      continue;  // a parameter has no default
    }
  }
  if (!least) throw PrivacyError("no loaded accountant has a proof for the best of these runs");
  return *std::move(least);
}

}  // namespace

ChoiceCost composed_cost(const std::vector<CountedPlan>& plans, double delta) {
  std::vector<const Plan*> all;
  all.reserve(plans.size());
  for (const CountedPlan& one : plans) all.push_back(one.plan);
  return proved(all, [&] {
    const Manifest& first = *all.front()->manifest;
    const auto accountant = after(first.accountant, first.adjacency, plans);
    return checked(accountant->epsilon(delta), first.accountant.name());
  });
}

ChoiceCost random_number_cost(const std::vector<const Plan*>& candidates, double shape,
                              double expected_runs, double delta) {
  std::string name;
  ChoiceCost cost = proved(candidates, [&] {
    const Manifest& first = *candidates.front()->manifest;
    std::vector<Event> events;
    events.reserve(candidates.size());
    for (const Plan* plan : candidates) events.push_back(plan->event);
    const Event best = Event::repeat_and_select(expected_runs, shape, std::move(events));
    auto gate = make_guard(first.accountant);
    gate->start(first.adjacency);
    name = first.accountant.name();
    if (!gate->refuses(best)) return proof(std::move(gate), name, first.adjacency, best, delta);
    auto [answer, proving] = least_proof(*first.accountant.catalog, first.adjacency, best, delta);
    name = proving;
    return answer;
  });
  if (cost.epsilon) cost.accountant = name;
  return cost;
}

}  // namespace privgrad::core
