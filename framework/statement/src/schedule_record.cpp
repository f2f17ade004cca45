#include "privgrad/statement/schedule_record.hpp"

#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/theorems/utility_bound.hpp"

namespace privgrad::core {
namespace {

std::vector<Count> changes(std::span<const double> values) {
  std::vector<Count> steps;
  for (Count step = 0; step < values.size(); ++step) {
    if (step == 0 || values[step] != values[step - 1]) steps.push_back(step);
    if (steps.size() > kMostRecordedChanges) break;
  }
  return steps;
}

std::vector<Count> spread(Count count) {
  std::vector<Count> steps;
  for (Count i = 0; i < kMostRecordedChanges; ++i) {
    steps.push_back(i * (count - 1) / (kMostRecordedChanges - 1));
  }
  return steps;
}

SlotFacts record(std::span<const double> values) {
  SlotFacts slot{{changes(values), {}}, true};
  if (slot.step.size() > kMostRecordedChanges) slot = {{spread(values.size()), {}}, false};
  for (const Count step : slot.step) slot.value.push_back(values[step]);
  return slot;
}

double number_of(const Value& object, const char* key) {
  const Value& value = *object.find(key);
  if (const auto* whole = std::get_if<std::int64_t>(&value.data()))
    return static_cast<double>(*whole);
  return std::get<double>(value.data());
}

/// The bounds after 0, 1, 2, ... steps, which follow from `utility` and the planned noise without
/// data.
PredictedExcess predicted_excess(const PlanNumbers& plan, const Value& utility) {
  const Descent descent{.kappa = number_of(utility, "kappa"), .alpha = number_of(utility, "alpha")};
  const std::vector<double> bounds = descent.bounds(plan.noise_multiplier);
  PredictedExcess predicted{{}, number_of(utility, "optimum")};
  predicted.step.resize(bounds.size());
  std::iota(predicted.step.begin(), predicted.step.end(), Count{0});
  if (bounds.size() > kMostRecordedChanges) predicted.step = spread(bounds.size());
  for (const Count step : predicted.step) predicted.value.push_back(bounds[step]);
  return predicted;
}

}  // namespace

bool has_prediction(const Plan& plan) {
  return plan.manifest->resolved.find("utility") != nullptr && !plan.federated &&
         !plan.noise_adapts && !plan.correlated && !plan.manifest->noise_off;
}

ScheduleRecord schedule_record(const Plan& plan, const Outcome& outcome) {
  Slots slots{{"learning_rate", record(plan.learning_rate)},
              {"batch_size", record(plan.batch_size)}};
  // Adaptive clip norms depend on releases, so metrics.jsonl contains the values that were used.
  if (!plan.clip_norm_adapts()) slots["clip_norm"] = record(plan.clip_norm);
  if (plan.releases_count()) {
    slots["count_noise"] = record(plan.count_noise);
    slots["gradient_noise_multiplier"] = record(plan.gradient_noise_multiplier());
  }
  // Adaptive noise is known only after the run has ended.
  if (!plan.noise_adapts || outcome.noise)
    slots["noise_multiplier"] = record(outcome.stated(plan).noise_multiplier);
  ScheduleRecord facts{.schedules = 1,
                       .steps = plan.steps(),
                       .affordable_steps = plan.affordable_steps,
                       .slots = std::move(slots)};
  if (has_prediction(plan))
    facts.predicted_excess = predicted_excess(plan, *plan.manifest->resolved.find("utility"));
  return facts;
}

}  // namespace privgrad::core
