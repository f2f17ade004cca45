#include "slots.hpp"

#include <algorithm>
#include <functional>

#include "privgrad/error.hpp"

namespace privgrad::report {
SlotWords words_of_slot(const std::string& slot) {
  if (slot == "noise_multiplier") {
    return {
        "Noise multiplier",
        "Standard deviation of the noise over the clip norm. Where it is small, steps carry more "
        "signal and cost more privacy."};
  }
  if (slot == "clip_norm") {
    return {
        "Clip norm",
        "The longest gradient that an example may contribute; longer ones are scaled down to it."};
  }
  if (slot == "learning_rate")
    return {"Learning rate", "How far a step goes; free of privacy cost."};
  if (slot == "batch_size") {
    return {
        "Expected batch size",
        "The constant that the noised sum is divided by. Larger batches drown the noise, and cost "
        "more privacy where batches are sampled."};
  }
  if (slot == "local_iterations") {
    return {"Local iterations", "Steps that a client makes between two exchanges with the server."};
  }
  if (slot == "count_noise") {
    return {"Noise of the clipping count, in examples",
            "What hides how many examples were clipped; a share of the noise pays for it."};
  }
  if (slot == "gradient_noise_multiplier") {
    return {"Noise multiplier of the gradients alone",
            "A little above the noise multiplier, because the clipping count has its share of it."};
  }
  return {slot, "One value a step, as planned."};
}

std::vector<Point> listed_points(const core::ValuesOfSteps& listed, const std::string& name,
                                 const std::string& source) {
  const std::vector<core::Count>& steps = listed.step;
  if (steps.size() != listed.value.size())
    throw IoError(source + ": '" + name + "' has lists of different lengths");
  if (std::ranges::adjacent_find(steps, std::ranges::greater_equal()) != steps.end())
    throw IoError(source + ": '" + name + "' has steps that do not ascend");
  std::vector<Point> points;
  for (std::size_t i = 0; i < steps.size(); ++i)
    points.push_back({static_cast<double>(steps[i]), listed.value[i]});
  return points;
}

std::vector<Point> slot_points(const core::ScheduleRecord& schedules, const std::string& slot,
                               const std::string& source) {
  std::vector<Point> points = listed_points(schedules.slots.at(slot), slot, source);
  for (Point& point : points) point.x += 1.0;
  const auto last = static_cast<double>(schedules.steps);
  if (!points.empty() && last > points.back().x) points.push_back({last, points.back().y});
  return points;
}

}  // namespace privgrad::report
