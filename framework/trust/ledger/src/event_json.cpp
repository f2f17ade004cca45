#include "privgrad/trust/event_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace privgrad::core {
namespace {

struct Writer {
  nlohmann::json operator()(const GaussianEvent& e) const {
    return {{"noise_multiplier", e.noise_multiplier}};
  }
  nlohmann::json operator()(const LaplaceEvent& e) const {
    return {{"noise_multiplier", e.noise_multiplier}};
  }
  nlohmann::json operator()(const DiscreteGaussianEvent& e) const {
    return {{"sigma", e.sigma}, {"sensitivity", e.sensitivity}};
  }
  nlohmann::json operator()(const ZcdpEvent& e) const { return {{"rho", e.rho}}; }
  nlohmann::json operator()(const PoissonSampledEvent& e) const {
    return {{"sampling_probability", e.sampling_probability}, {"of", to_json(*e.of)}};
  }
  nlohmann::json operator()(const SampledWithoutReplacementEvent& e) const {
    return {{"source_dataset_size", e.source_dataset_size},
            {"sample_size", e.sample_size},
            {"of", to_json(*e.of)}};
  }
  nlohmann::json operator()(const RandomAllocationEvent& e) const {
    return {{"steps", e.steps}, {"of", to_json(*e.of)}};
  }
  nlohmann::json operator()(const RepeatAndSelectEvent& e) const {
    nlohmann::json json{{"mean", e.mean}, {"candidates", list(e.candidates)}};
    if (e.is_poisson()) {
      json["distribution"] = "poisson";
    } else if (e.shape == 1.0) {
      json["distribution"] = "geometric";
    } else {
      json["distribution"] = "truncated_negative_binomial";
      json["shape"] = e.shape;
    }
    return json;
  }
  nlohmann::json operator()(const ComposedEvent& e) const { return {{"of", list(e.of)}}; }
  nlohmann::json operator()(const SelfComposedEvent& e) const {
    return {{"count", e.count}, {"of", to_json(*e.of)}};
  }
  nlohmann::json operator()(const NonPrivateEvent&) const { return nlohmann::json::object(); }
  nlohmann::json operator()(const UnsupportedEvent& e) const { return {{"reason", e.reason}}; }

 private:
  static nlohmann::json list(const std::vector<Event>& events) {
    nlohmann::json all = nlohmann::json::array();
    for (const Event& event : events) all.push_back(to_json(event));
    return all;
  }
};

}  // namespace

nlohmann::json to_json(const Event& event) {
  nlohmann::json json = std::visit(Writer{}, event.kind());
  json["event"] = event.name();
  return json;
}

nlohmann::json json_number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace privgrad::core
