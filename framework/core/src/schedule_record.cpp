#include "privgrad/core/schedule_record.hpp"

#include <span>
#include <vector>

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

}  // namespace

Json schedule_record(const Plan& plan) {
  Json slots{{"noise_multiplier", record(plan.noise_multiplier)},
             {"clip_norm", record(plan.clip_norm)},
             {"learning_rate", record(plan.learning_rate)},
             {"batch_size", record(plan.batch_size)}};
  if (plan.adaptive != nullptr) {
    // The clip norms that were used follow from what was released: metrics.jsonl has them.
    slots.erase("clip_norm");
    slots["count_noise"] = record(plan.count_noise);
    slots["gradient_noise_multiplier"] = record(plan.gradient_noise_multiplier());
  }
  // Noise that adapts is known when the run has ended.
  if (plan.noise_adapts && !plan.noise_adapts->made) slots.erase("noise_multiplier");
  return {{"schedules", 1},
          {"steps", plan.steps()},
          {"affordable_steps", plan.affordable_steps},
          {"slots", std::move(slots)}};
}

}  // namespace privgrad::core
