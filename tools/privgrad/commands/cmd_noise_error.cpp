#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "accountant_call.hpp"
#include "command.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "plan_page.hpp"
#include "plugins.hpp"
#include "privgrad/api/noise_error.hpp"
#include "privgrad/report/noise_error.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

constexpr std::size_t kCurveWidth = 40;

/// Names the mechanism with the least noise, and the --set options that select it.
std::string choice_of(const api::NoiseOfMechanisms& noise) {
  const api::NoiseArm& best = noise.best();
  return "\nleast noise in the iterates: " + best.name + "\n  --set 'sampler=" + best.sampler +
         "'\n  --set 'aggregator=" + best.aggregator +
         "'\nOnly these mechanisms were compared, by the optimizer's own sums: how a loss forgets "
         "earlier noise is\nnot counted, nor how batches of another kind change the gradients.\n";
}

std::string page_of(const api::NoiseOfMechanisms& noise) {
  const core::Manifest& manifest = noise.manifest;
  std::vector<Align> columns(7 + noise.windows.size(), Align::right);
  columns.front() = Align::left;
  columns.push_back(Align::left);
  Table table(columns);
  const std::uint64_t steps = noise.steps;
  const std::uint64_t last = steps - 1;
  const auto at = [&](const api::NoiseArm& arm, std::uint64_t step) {
    return short_number(arm.noise.stddev[std::min(step, last)]);
  };
  std::vector<std::string> head{"",         "node noise", "step 1",
                                "half way", "last step",  "all steps (rms)"};
  for (const std::uint64_t window : noise.windows)
    head.push_back("mean of " + std::to_string(window));
  head.emplace_back("iterates");
  head.emplace_back();
  table.add(std::move(head));
  std::string refusals;
  for (const api::NoiseArm& arm : noise.arms) {
    if (!arm.refused.empty()) {
      refusals += "\n" + arm.name + ": refused\n  " + arm.refused + "\n";
      continue;
    }
    std::vector<std::string> row{arm.name,      short_number(arm.noise.noise_multiplier),
                                 at(arm, 0),    at(arm, steps / 2),
                                 at(arm, last), short_number(arm.noise.root_mean_square())};
    for (const double averaged : arm.noise.averaged) row.push_back(short_number(averaged));
    row.push_back(short_number(arm.noise.iterates));
    row.push_back(sparkline(arm.noise.stddev, kCurveWidth, speaks_utf8()));
    table.add(std::move(row));
  }
  return manifest.name + ": standard deviation of the noise in each coordinate of the " +
         (noise.momentum < 1.0 ? "momentum " + format_number(noise.momentum)
                               : std::string("prefix sums")) +
         ",\nat epsilon " + format_number(*manifest.target_epsilon) + ", delta " +
         format_number(manifest.target_delta) + ", " + std::string(to_text(manifest.adjacency)) +
         ", over " + std::to_string(steps) + " steps\n\n" + table.text(2) + refusals +
         (noise.samplers ? choice_of(noise) : "");
}

std::string page_of(const api::NoiseOfTwo& noise) {
  const api::NoiseSide& first = noise.sides[0];
  const api::NoiseSide& second = noise.sides[1];
  Table table({Align::left, Align::right, Align::right, Align::right, Align::left});
  table.add({"", first.name, second.name, "second / first", ""});
  const auto row = [&](const char* name, const auto& value) {
    table.add({name, value(first), value(second)});
  };
  row("aggregator", [](const api::NoiseSide& side) { return side.manifest->aggregator.name(); });
  row("steps", [](const api::NoiseSide& side) { return std::to_string(side.plan.steps()); });
  if (first.momentum < 1.0)
    row("momentum", [](const api::NoiseSide& side) { return short_number(side.momentum, 6); });
  row("node noise",
      [](const api::NoiseSide& side) { return short_number(side.noise.noise_multiplier); });
  row("step 1", [](const api::NoiseSide& side) { return short_number(side.noise.stddev.front()); });
  row("last step",
      [](const api::NoiseSide& side) { return short_number(side.noise.stddev.back()); });
  for (const api::NoiseMeasure& measure : noise.measures) {
    const auto lower = measure.lower();
    table.add({measure.name, short_number(measure.values[0]), short_number(measure.values[1]),
               short_number(measure.ratio(), 3),
               lower ? (*lower == 0 ? first : second).name + " is lower" : "cannot be told"});
  }
  std::string text = "standard deviation of the noise in each coordinate of the " +
                     std::string(first.momentum < 1.0 ? "momentum" : "prefix sums") + ",\nat " +
                     api::guarantee_of(*first.manifest) + "\n\n" + table.text(2);
  for (const std::string& note : noise.notes) text += "\nnote: " + note + "\n";
  return text;
}

std::vector<std::uint64_t> windows_given(const std::string& text) {
  std::vector<std::uint64_t> windows;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');)
    windows.push_back(static_cast<std::uint64_t>(whole_number("windows", item, 1, 1'000'000'000)));
  return windows;
}

api::NoiseQuestion question_of(const Arguments& arguments) {
  api::NoiseQuestion question{.samplers = arguments.has("samplers")};
  if (arguments.has("momentum")) {
    question.momentum = number_in("momentum", arguments.text("momentum"),
                                  {.low = 0.0, .high = 1.0, .with_high = true});
  }
  if (arguments.has("smoothness"))
    question.smoothness = number_in("smoothness", arguments.text("smoothness"), {0.0, 1e300});
  if (arguments.has("restart-every")) {
    question.restart_every = static_cast<std::uint64_t>(
        whole_number("restart-every", arguments.text("restart-every"), 1, 1'000'000'000));
  }
  if (arguments.has("windows")) question.windows = windows_given(arguments.text("windows"));
  return question;
}

/// Prints the result in the requested format.
template <class Noise>
void print_noise(const Arguments& arguments, const Noise& noise) {
  if (arguments.has("json")) {
    print_json(api::to_json(noise));
  } else {
    print(page_of(noise));
  }
}

void compare_two(const Arguments& arguments, const Catalog& catalog) {
  for (const char* option : {"restart-every", "smoothness", "samplers", "report"}) {
    if (!arguments.has(option)) continue;
    throw UsageError("--" + std::string(option) +
                     " is for one manifest, and there are two, each with its own aggregator");
  }
  std::vector<std::string> names;
  std::vector<core::Manifest> manifests;
  for (std::size_t i = 0; i < 2; ++i) {
    names.push_back(arguments.operand(i));
    manifests.push_back(core::load_manifest(names[i], arguments.texts("set"), catalog));
  }
  print_noise(arguments, api::noise_of_two(names, manifests, question_of(arguments)));
}

int do_noise_error(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  if (arguments.operand_count() == 2) {
    compare_two(arguments, host.catalog());
    return 0;
  }
  const auto read = [&](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = arguments.texts("set");
    overrides.insert(overrides.end(), more.begin(), more.end());
    return core::load_manifest(arguments.operand(0), overrides, host.catalog());
  };
  const api::NoiseOfMechanisms noise = api::noise_of_mechanisms(read, question_of(arguments));
  if (arguments.has("report")) {
    core::write_atomically(arguments.text("report"), report::noise_error_page(api::to_json(noise)));
  }
  print_noise(arguments, noise);
  return 0;
}

}  // namespace

Command noise_error_command() {
  return {
      .usage =
          {.name = "noise-error",
           .summary = "Predicts the noise in released momentum or prefix sums, step by step, for "
                      "independent noise\nand for trees, at the guarantee of a manifest; or for "
                      "two manifests of one guarantee, each with\nits own aggregator and steps. "
                      "Trains nothing and releases nothing.",
           .operands = {"MANIFEST", "MANIFEST"},
           .optional_operands = 1,
           .options = {set_option(),
                       {"momentum", "M",
                        "In (0, 1]; 1 is prefix sums. Default: the momentum of the manifest's "
                        "aggregator. With two manifests: the momentum for the one whose noise is "
                        "independent; default: the other's."},
                       {"restart-every", "N",
                        "Also compare trees that are restarted after N steps. Default: the value "
                        "in the manifest's aggregator tree."},
                       {"smoothness", "L",
                        "Smoothness of the loss, for tree_reduced. Default: the value in the "
                        "manifest's aggregator tree_reduced; without a value, tree_reduced is left "
                        "out."},
                       {"windows", "N,...",
                        "Also show the noise in the mean of N consecutive releases, which is what "
                        "moves a model. Default: as many as the momentum remembers, 1 / (1 - M), "
                        "and ten times as many; none for prefix sums; with two manifests, the "
                        "defaults of both."},
                       {"samplers", "",
                        "Compares samplers of the same expected batch size as well, each with "
                        "the mechanisms that are proved under it, and names the one whose iterates "
                        "have the least noise, with the manifest keys that select it."},
                       {"report", "FILE",
                        "Write the table and a chart of every step as one HTML page."},
                       {"json", "", "Print one JSON document, with every step of every mechanism."},
                       plugin_dir_option()},
           .details =
               "Noise is on the scale of the released gradient: the noise multiplier times the "
               "clip norm over the\nbatch size. A mechanism without a proof under the manifest's "
               "sampler is listed with the reason:\ntrees need a sampler whose order is public "
               "(shuffle, sequential, full_batch), and tree_reduced one\nwhose epochs are all in "
               "the same order.\n\nIterates are the releases added up with the learning rates "
               "(over their "
               "mean), as SGD does; under\nan optimizer that rescales gradients, as Adam, they are "
               "a proxy. Means of releases are simulated by the run's own recipes, with a fixed "
               "seed, to 1.6 % (4.5 % beyond\n24 000 steps). With two manifests, the one with less "
               "noise is named if they are more than 10 %\napart; otherwise the answer is that it "
               "cannot be told. If they take different numbers of steps,\nless noise does not tell "
               "which run ends better. --restart-every, --smoothness, --samplers and --report are "
               "for one manifest.",
           .examples = {"privgrad noise-error m.yaml --momentum 0.99",
                        "privgrad noise-error m.yaml --momentum 1 --restart-every 1000 --json",
                        "privgrad noise-error m.yaml --momentum 0.9 --samplers",
                        "privgrad noise-error tree.yaml reduced.yaml"}},
      .run = do_noise_error};
}

}  // namespace privgrad::tool
