#include "step_count.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {
namespace {

PlannedAuto chosen_steps(const Manifest& manifest, const RunFacts& facts,
                         const Aggregator& aggregator) {
  try {
    const std::optional<AutoValue> theorem = aggregator.auto_steps(facts);
    if (!theorem) {
      throw ConfigError("is auto, but no theorem says how many steps aggregator " +
                        manifest.aggregator.name() +
                        " is best used for; give a number, or utility: {kappa, alpha} (privgrad "
                        "bound --help)");
    }
    const AutoValue& chosen = *theorem;
    if (!(chosen.value >= 1.0 && chosen.value <= static_cast<double>(kMostSteps))) {
      throw ConfigError("is auto, which is " + format_number(chosen.value) + " (" + chosen.reason +
                        "), allowed is [1, " + std::to_string(kMostSteps) + "]; give a number");
    }
    return {"steps", chosen.value, chosen.reason};
  } catch (const ConfigError& problem) {
    throw error_at(manifest, "steps", problem.what());
  }
}

constexpr const char* kStepsByBound =
    "the least of Theorem 4.1's bound (Hong et al. 2022) for utility, which is about gradient "
    "descent with full batches, whose steps cost 1/sigma^2";

}  // namespace

StepCount plan_step_count(const Manifest& manifest, const Setting& setting,
                          const OwnerSetting& owner, const Components& made) {
  StepCount count;
  RunFacts& facts = count.facts;
  facts = {.steps = owner.steps,
           .dataset_size = owner.dataset_size,
           .parameters = setting.parameters,
           .target_epsilon = manifest.target_epsilon,
           .target_delta = manifest.target_delta};
  const bool chooses_steps = owner.steps == 0;
  if (!manifest.batch_size.is_given()) {
    // Finds the sampler's own batch sizes, which do not depend on the number of steps.
    RunFacts some_steps = facts;
    some_steps.steps = std::max<std::uint64_t>(1, owner.steps);
    facts.batch_size = start_sampler(manifest, *made.sampler, some_steps, {}).front();
  } else if (chooses_steps || manifest.auto_learning_rate) {
    throw error_at(manifest, "schedules.batch_size",
                   "changes the batches, for which no theorem says an auto value; give the "
                   "sampler's batch_size instead");
  }
  if (manifest.steps_minimise_bound)
    count.auto_values.push_back({"steps", static_cast<double>(owner.steps), kStepsByBound});
  if (chooses_steps) {
    count.auto_values.push_back(chosen_steps(manifest, facts, *made.aggregator));
    facts.steps = static_cast<std::uint64_t>(count.auto_values.back().value);
  }
  return count;
}

PlannedAuto chosen_learning_rate(const Manifest& manifest, const RunFacts& facts,
                                 const Optimizer& optimizer) {
  return manifest.learning_rate.with_position([&] {
    const std::optional<AutoValue> chosen = optimizer.auto_learning_rate(facts);
    if (!chosen) {
      throw ConfigError("is auto, but no theorem says the learning rate of optimizer " +
                        manifest.optimizer.name() + "; give a number");
    }
    return PlannedAuto{"schedules.learning_rate", chosen->value, chosen->reason};
  });
}

std::vector<PlannedAuto> auto_values_of(const ComponentUse& aggregator, const Components& started) {
  std::vector<PlannedAuto> values;
  for (AutoValue& chosen : started.aggregator->auto_values()) {
    values.push_back(
        {aggregator.where + "." + chosen.name, chosen.value, std::move(chosen.reason)});
  }
  return values;
}

}  // namespace privgrad::core
