#include "noise_of_two.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "accountant_call.hpp"
#include "averaged_noise.hpp"
#include "output.hpp"
#include "predicted_noise.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/trust/event_json.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

using Json = nlohmann::json;

/// Two predictions as close as this are not told apart: means over windows are simulated, each to
/// up to 4.5 %.
constexpr double kTooClose = 1.1;

struct Side {
  std::string file;
  core::Manifest manifest;
  core::Plan plan;
  std::optional<double> momentum;  ///< Nothing: it releases gradients, which are summed up here.
  PredictedNoise noise = {};

  Side(const Arguments& arguments, std::size_t i, const Catalog& catalog)
      : file(arguments.operand(i)),
        manifest(manifest_with_target(arguments, i, catalog)),
        plan(core::make_plan(manifest)) {
    if (releases_gradients(plan)) return;
    momentum = manifest.aggregator.params.has("momentum") ? momentum_of(manifest) : 1.0;
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
};

/// A number of each side, and which is the lower one.
struct Measure {
  std::string name;
  std::optional<std::uint64_t> window;
  std::array<double, 2> values;

  double ratio() const { return values[1] / values[0]; }
  /// The lower side; nothing: it cannot be told.
  std::optional<std::size_t> lower() const {
    if (ratio() > kTooClose) return 0;
    if (ratio() < 1.0 / kTooClose) return 1;
    return std::nullopt;
  }
};

std::string guarantee_of(const core::Manifest& manifest) {
  return "epsilon " + format_number(*manifest.target_epsilon) + ", delta " +
         format_number(manifest.target_delta) + ", " + std::string(to_text(manifest.adjacency));
}

void refuse_options_of_one(const Arguments& arguments) {
  for (const char* option : {"restart-every", "smoothness", "samplers", "report"}) {
    if (!arguments.has(option)) continue;
    throw UsageError("--" + std::string(option) +
                     " is for one manifest, and there are two, each with its own aggregator");
  }
}

/// Gives each side its momentum.
void settle_momentum(const Arguments& arguments, Side& first, Side& second) {
  const bool both = first.momentum && second.momentum;
  if (both && arguments.has("momentum")) {
    throw UsageError(
        "--momentum is for releases of gradients, and both manifests release a momentum of their "
        "own");
  }
  if (!first.momentum && !second.momentum && !arguments.has("momentum")) {
    throw UsageError(
        "which momentum? give --momentum, or a manifest whose aggregator is a tree or matrix (1 is "
        "prefix sums)");
  }
  const double given = arguments.has("momentum")
                           ? number_in("momentum", arguments.text("momentum"),
                                       {.low = 0.0, .high = 1.0, .with_high = true})
                           : first.momentum.value_or(second.momentum.value_or(1.0));
  if (!first.momentum) first.momentum = given;
  if (!second.momentum) second.momentum = given;
  if ((*first.momentum < 1.0) != (*second.momentum < 1.0)) {
    const Side& sums = *first.momentum < 1.0 ? second : first;
    throw UsageError(sums.file +
                     " releases prefix sums, and the other momentum: their noise has different "
                     "units");
  }
}

std::vector<std::uint64_t> windows_of(const Arguments& arguments, const Side& first,
                                      const Side& second) {
  const std::uint64_t steps = std::min(first.plan.steps(), second.plan.steps());
  if (arguments.has("windows")) return windows_given(arguments.text("windows"), steps);
  std::set<std::uint64_t> windows;
  for (const Side* side : {&first, &second}) {
    for (const std::uint64_t window : remembered_steps(*side->momentum, steps))
      windows.insert(window);
  }
  return {windows.begin(), windows.end()};
}

std::vector<Measure> measures_of(const Side& first, const Side& second,
                                 const std::vector<std::uint64_t>& windows) {
  std::vector<Measure> measures{
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

std::vector<std::string> notes_of(const Side& first, const Side& second) {
  std::vector<std::string> notes;
  if (first.plan.steps() != second.plan.steps()) {
    notes.push_back("they take " + std::to_string(first.plan.steps()) + " and " +
                    std::to_string(second.plan.steps()) +
                    " steps, so that less noise does not say which run ends better");
  }
  if (first.momentum != second.momentum) {
    notes.push_back(
        "the one with more momentum averages over more gradients, of older iterates: it has less "
        "noise for that alone");
  }
  if (first.plan.parameters != second.plan.parameters) {
    notes.push_back("their models have " + std::to_string(first.plan.parameters) + " and " +
                    std::to_string(second.plan.parameters) +
                    " parameters, and this is the noise in one");
  }
  return notes;
}

Json json_of(const Side& side) {
  return {{"manifest", side.file},
          {"name", side.manifest.name},
          {"aggregator", side.manifest.aggregator.name()},
          {"steps", side.plan.steps()},
          {"momentum", *side.momentum},
          {"noise_multiplier", side.noise.noise_multiplier},
          {"stddev", side.noise.stddev},
          {"root_mean_square", side.noise.root_mean_square()},
          {"averaged", side.noise.averaged}};
}

Json json_of(const Side& first, const Side& second, const std::vector<std::uint64_t>& windows,
             const std::vector<Measure>& measures) {
  Json comparison = Json::array();
  for (const Measure& measure : measures) {
    const auto lower = measure.lower();
    comparison.push_back(
        {{"window", measure.window ? Json(*measure.window) : Json(nullptr)},
         {"values", measure.values},
         {"ratio", measure.ratio()},
         {"lower", lower ? Json((*lower == 0 ? first : second).file) : Json(nullptr)}});
  }
  return {{"manifests", {json_of(first), json_of(second)}},
          {"windows", windows},
          {"target_epsilon", *first.manifest.target_epsilon},
          {"target_delta", first.manifest.target_delta},
          {"adjacency", to_text(first.manifest.adjacency)},
          {"comparison", std::move(comparison)},
          {"notes", notes_of(first, second)}};
}

std::string page_of(const Side& first, const Side& second, const std::vector<Measure>& measures) {
  Table table({Align::left, Align::right, Align::right, Align::right, Align::left});
  table.add({"", first.file, second.file, "second / first", ""});
  const auto row = [&](const char* name, const auto& value) {
    table.add({name, value(first), value(second)});
  };
  row("aggregator", [](const Side& side) { return side.manifest.aggregator.name(); });
  row("steps", [](const Side& side) { return std::to_string(side.plan.steps()); });
  if (*first.momentum < 1.0)
    row("momentum", [](const Side& side) { return short_number(*side.momentum, 6); });
  row("node noise", [](const Side& side) { return short_number(side.noise.noise_multiplier); });
  row("step 1", [](const Side& side) { return short_number(side.noise.stddev.front()); });
  row("last step", [](const Side& side) { return short_number(side.noise.stddev.back()); });
  for (const Measure& measure : measures) {
    const auto lower = measure.lower();
    table.add({measure.name, short_number(measure.values[0]), short_number(measure.values[1]),
               short_number(measure.ratio(), 3),
               lower ? (*lower == 0 ? first : second).file + " is lower" : "cannot be told"});
  }
  std::string text = "standard deviation of the noise in each coordinate of the " +
                     std::string(*first.momentum < 1.0 ? "momentum" : "prefix sums") + ",\nat " +
                     guarantee_of(first.manifest) + "\n\n" + table.text(2);
  for (const std::string& note : notes_of(first, second)) text += "\nnote: " + note + "\n";
  return text;
}

}  // namespace

int compare_noise_of_two(const Arguments& arguments, const Catalog& catalog) {
  refuse_options_of_one(arguments);
  Side first(arguments, 0, catalog), second(arguments, 1, catalog);
  const std::string guarantee = guarantee_of(first.manifest);
  if (guarantee != guarantee_of(second.manifest)) {
    throw UsageError("noise is compared at one guarantee, but " + first.file + " has " + guarantee +
                     " and " + second.file + " " + guarantee_of(second.manifest) +
                     "; --set sets a key of both");
  }
  settle_momentum(arguments, first, second);
  const std::vector<std::uint64_t> windows = windows_of(arguments, first, second);
  for (Side* side : {&first, &second})
    side->noise = predicted_noise(side->plan, *side->momentum, windows);
  const std::vector<Measure> measures = measures_of(first, second, windows);
  if (arguments.has("json")) {
    print_json(json_of(first, second, windows, measures));
  } else {
    print(page_of(first, second, measures));
  }
  return 0;
}

}  // namespace privgrad::tool
