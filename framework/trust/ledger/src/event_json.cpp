#include "privgrad/trust/event_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace privgrad::core {
namespace {

template <class Number>
nlohmann::json json_of(const Number& value) {
  return value;
}
nlohmann::json json_of(const std::shared_ptr<const Event>& of) { return to_json(*of); }
nlohmann::json json_of(const std::vector<Event>& events) {
  nlohmann::json all = nlohmann::json::array();
  for (const Event& event : events) all.push_back(to_json(event));
  return all;
}

/// Names the distribution, and drops the shape if the name implies it.
void name_distribution(const RepeatAndSelectEvent& e, nlohmann::json& json) {
  const bool is_named = e.is_poisson() || e.shape == 1.0;
  json["distribution"] = e.is_poisson()   ? "poisson"
                         : e.shape == 1.0 ? "geometric"
                                          : "truncated_negative_binomial";
  if (is_named) json.erase("shape");
}

}  // namespace

nlohmann::json to_json(const Event& event) {
  nlohmann::json json{{"event", event.name()}};
  const auto write = [&](const char* name, const auto& value) { json[name] = json_of(value); };
  std::visit([&](const auto& e) { e.members(write, e); }, event.kind());
  if (const auto* best = std::get_if<RepeatAndSelectEvent>(&event.kind()))
    name_distribution(*best, json);
  return json;
}

nlohmann::json json_number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace privgrad::core
