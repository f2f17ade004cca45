#include "privgrad/statement/schedule_record.hpp"

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/theorems/utility_bound.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

std::vector<std::size_t> changes(std::span<const double> values) {
  std::vector<std::size_t> steps;
  for (std::size_t step = 0; step < values.size(); ++step) {
    if (step == 0 || values[step] != values[step - 1]) steps.push_back(step);
    if (steps.size() > kMostRecordedChanges) break;
  }
  return steps;
}

std::vector<std::size_t> spread(std::size_t count) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < kMostRecordedChanges; ++i) {
    steps.push_back(i * (count - 1) / (kMostRecordedChanges - 1));
  }
  return steps;
}

Json record(std::span<const double> values) {
  std::vector<std::size_t> steps = changes(values);
  const bool exact = steps.size() <= kMostRecordedChanges;
  if (!exact) steps = spread(values.size());
  Json at = Json::array();
  for (const std::size_t step : steps) at.push_back(values[step]);
  return {{"step", steps}, {"value", std::move(at)}, {"exact", exact}};
}

double number_of(const Value& object, const char* key) {
  const Value& value = *object.find(key);
  if (const auto* whole = std::get_if<std::int64_t>(&value.data()))
    return static_cast<double>(*whole);
  return std::get<double>(value.data());
}

/// The bounds after 0, 1, ... T steps that follow from the manifest's `utility` before any data is
/// read.
Json predicted_excess(const PlanNumbers& plan, const Value& utility) {
  const Descent descent{.kappa = number_of(utility, "kappa"), .alpha = number_of(utility, "alpha")};
  const std::vector<double> bounds = descent.bounds(plan.noise_multiplier);
  std::vector<std::size_t> steps(bounds.size());
  for (std::size_t step = 0; step < steps.size(); ++step) steps[step] = step;
  if (steps.size() > kMostRecordedChanges) steps = spread(steps.size());
  Json values = Json::array();
  for (const std::size_t step : steps) values.push_back(bounds[step]);
  return {{"optimum", number_of(utility, "optimum")}, {"step", steps}, {"value", values}};
}

}  // namespace

bool has_prediction(const Plan& plan) {
  return plan.manifest->resolved.find("utility") != nullptr && !plan.federated &&
         !plan.noise_adapts && !plan.correlated && !plan.manifest->noise_off;
}

Json schedule_record(const Plan& plan, const Outcome& outcome) {
  const PlanNumbers stated = outcome.stated(plan);
  Json slots{{"noise_multiplier", record(stated.noise_multiplier)},
             {"clip_norm", record(plan.clip_norm)},
             {"learning_rate", record(plan.learning_rate)},
             {"batch_size", record(plan.batch_size)}};
  // Adaptive clip norms depend on releases, so metrics.jsonl contains the values that were used.
  if (plan.clip_norm_adapts()) slots.erase("clip_norm");
  if (plan.releases_count()) {
    slots["count_noise"] = record(plan.count_noise);
    slots["gradient_noise_multiplier"] = record(plan.gradient_noise_multiplier());
  }
  // Adaptive noise is known only after the run has ended.
  if (plan.noise_adapts && !outcome.noise) slots.erase("noise_multiplier");
  Json json{{"schedules", 1},
            {"steps", plan.steps()},
            {"affordable_steps", plan.affordable_steps},
            {"slots", std::move(slots)}};
  if (has_prediction(plan))
    json["predicted_excess"] = predicted_excess(plan, *plan.manifest->resolved.find("utility"));
  return json;
}

}  // namespace privgrad::core
