#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "noise_question.hpp"
#include "privgrad/api/noise_error.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::api {
namespace {

using Json = nlohmann::json;

/// Predictions count as different if their ratio exceeds this number: means over windows are
/// simulated, each with an error of up to 4.5 %.
constexpr double kTooClose = 1.1;

/// Returns the momentum in a side's releases (1: prefix sums); nothing if it releases gradients,
/// whose noise is accumulated with a momentum here.
std::optional<double> own_momentum(const core::Manifest& manifest, const core::Plan& plan) {
  if (releases_gradients(plan)) return std::nullopt;
  return manifest.aggregator.params.has("momentum") ? momentum_of(manifest) : 1.0;
}

std::vector<double> momentum_of_sides(const NoiseQuestion& question,
                                      const std::vector<std::string>& names,
                                      const std::vector<std::optional<double>>& own) {
  if (own[0] && own[1] && question.momentum) {
    throw ConfigError(
        "--momentum applies to releases of gradients, but both manifests release their own "
        "momentum");
  }
  if (!own[0] && !own[1] && !question.momentum) throw ConfigError(kWhichMomentum);
  const double other = question.momentum.value_or(own[0].value_or(own[1].value_or(1.0)));
  const std::vector<double> settled{own[0].value_or(other), own[1].value_or(other)};
  if ((settled[0] < 1.0) != (settled[1] < 1.0)) {
    throw ConfigError(names[settled[0] < 1.0 ? 1 : 0] +
                      " releases prefix sums, and the other manifest releases momentum: the noise "
                      "has different units");
  }
  return settled;
}

std::vector<NoiseMeasure> measures_of(const NoiseSide& first, const NoiseSide& second,
                                      const std::vector<std::uint64_t>& windows) {
  std::vector<NoiseMeasure> measures{
      {"all steps (rms)",
       std::nullopt,
       {first.noise.root_mean_square(), second.noise.root_mean_square()}}};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    measures.push_back({"mean of " + std::to_string(windows[i]),
                        windows[i],
                        {first.noise.averaged[i], second.noise.averaged[i]}});
  }
  return measures;
}

std::vector<std::string> notes_of(const NoiseSide& first, const NoiseSide& second) {
  std::vector<std::string> notes;
  if (first.plan.steps() != second.plan.steps()) {
    notes.push_back("they take " + std::to_string(first.plan.steps()) + " and " +
                    std::to_string(second.plan.steps()) +
                    " steps, so less noise does not mean a better result");
  }
  if (first.momentum != second.momentum) {
    notes.push_back(
        "the manifest with more momentum averages more gradients of older iterates, so it has less "
        "noise for this reason alone");
  }
  if (first.plan.parameters != second.plan.parameters) {
    notes.push_back("their models have " + std::to_string(first.plan.parameters) + " and " +
                    std::to_string(second.plan.parameters) +
                    " parameters, and the noise is given for one parameter");
  }
  return notes;
}

Json json_of(const NoiseSide& side) {
  return {{"manifest", side.name},
          {"name", side.manifest->name},
          {"aggregator", side.manifest->aggregator.name()},
          {"steps", side.plan.steps()},
          {"momentum", side.momentum},
          {"noise_multiplier", side.noise.noise_multiplier},
          {"stddev", side.noise.stddev},
          {"root_mean_square", side.noise.root_mean_square()},
          {"averaged", side.noise.averaged}};
}

}  // namespace

std::optional<std::size_t> NoiseMeasure::lower() const {
  if (ratio() > kTooClose) return 0;
  if (ratio() < 1.0 / kTooClose) return 1;
  return std::nullopt;
}

std::string guarantee_of(const core::Manifest& manifest) {
  return "epsilon " + format_number(*manifest.target_epsilon) + ", delta " +
         format_number(manifest.target_delta) + ", " + std::string(to_text(manifest.adjacency));
}

NoiseOfTwo noise_of_two(const std::vector<std::string>& names,
                        const std::vector<core::Manifest>& manifests,
                        const NoiseQuestion& question) {
  require_ranges(question);
  NoiseOfTwo result;
  std::vector<std::optional<double>> own;
  for (std::size_t i = 0; i < manifests.size(); ++i) {
    require_target(manifests[i]);
    core::Plan plan = core::make_plan(manifests[i]);
    own.push_back(own_momentum(manifests[i], plan));
    result.sides.push_back({.name = names[i], .manifest = &manifests[i], .plan = std::move(plan)});
  }
  NoiseSide& first = result.sides[0];
  NoiseSide& second = result.sides[1];
  const std::string guarantee = guarantee_of(*first.manifest);
  if (guarantee != guarantee_of(*second.manifest)) {
    throw ConfigError("noise is compared at the same guarantee, but " + first.name + " has " +
                      guarantee + " and " + second.name + " " + guarantee_of(*second.manifest) +
                      "; --set changes a key of both manifests");
  }
  const std::vector<double> momentum = momentum_of_sides(question, names, own);
  const std::uint64_t steps = std::min(first.plan.steps(), second.plan.steps());
  std::set<std::uint64_t> windows;
  for (const double one : momentum) {
    for (const std::uint64_t window : remembered_steps(one, steps)) windows.insert(window);
  }
  result.windows = question.windows ? windows_within(*question.windows, steps)
                                    : std::vector(windows.begin(), windows.end());
  for (std::size_t i = 0; i < 2; ++i) {
    result.sides[i].momentum = momentum[i];
    result.sides[i].noise = predicted_noise(result.sides[i].plan, momentum[i], result.windows);
  }
  result.measures = measures_of(first, second, result.windows);
  result.notes = notes_of(first, second);
  return result;
}

Json to_json(const NoiseOfTwo& noise) {
  const NoiseSide& first = noise.sides[0];
  const NoiseSide& second = noise.sides[1];
  Json comparison = Json::array();
  for (const NoiseMeasure& measure : noise.measures) {
    const auto lower = measure.lower();
    comparison.push_back(
        {{"window", measure.window ? Json(*measure.window) : Json(nullptr)},
         {"values", measure.values},
         {"ratio", measure.ratio()},
         {"lower", lower ? Json((*lower == 0 ? first : second).name) : Json(nullptr)}});
  }
  return {{"manifests", {json_of(first), json_of(second)}},
          {"windows", noise.windows},
          {"target_epsilon", *first.manifest->target_epsilon},
          {"target_delta", first.manifest->target_delta},
          {"adjacency", to_text(first.manifest->adjacency)},
          {"comparison", std::move(comparison)},
          {"notes", noise.notes}};
}

}  // namespace privgrad::api
