#include "slots.hpp"

#include "privgrad/error.hpp"
#include "record.hpp"

namespace privgrad::report {
namespace {

using Json = nlohmann::json;

}  // namespace

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

std::vector<Point> listed_points(const Json& entry, const std::string& name,
                                 const std::string& source) {
  const Json& steps = list(entry, "step", source);
  const Json& values = list(entry, "value", source);
  if (steps.size() != values.size())
    throw IoError(source + ": '" + name + "' has lists of different lengths");
  const std::string who = source + ": '" + name + "' ";
  std::vector<Point> points;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].is_number() || !values[i].is_number()) {
      throw IoError(who + "holds something that is not a number");
    }
    const Point point{steps[i].get<double>(), values[i].get<double>()};
    if (!points.empty() && point.x <= points.back().x) {
      throw IoError(who + "has steps that do not ascend");
    }
    points.push_back(point);
  }
  return points;
}

std::vector<Point> slot_points(const Json& schedules, const std::string& slot,
                               const std::string& source) {
  std::vector<Point> points = listed_points(
      members(members(schedules, "slots", source), slot.c_str(), source), slot, source);
  for (Point& point : points) point.x += 1.0;
  const auto last = number(schedules, "steps", source);
  if (last && !points.empty() && *last > points.back().x)
    points.push_back({*last, points.back().y});
  return points;
}

}  // namespace privgrad::report
