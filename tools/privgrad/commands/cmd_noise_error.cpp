#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accountant_call.hpp"
#include "command.hpp"
#include "manifest_call.hpp"
#include "noise_of_two.hpp"
#include "output.hpp"
#include "plan_page.hpp"
#include "plugins.hpp"
#include "predicted_noise.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/report/noise_error.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/files.hpp"
#include "table.hpp"

namespace privgrad::tool {
namespace {

constexpr std::size_t kCurveWidth = 40;

/// What samplers of one expected batch size are made of.
struct Batches {
  double size = 0.0;
  std::uint64_t rows = 0;

  std::string sampler(const std::string& kind, const std::string& options = "") const {
    return "{kind: " + kind + ", batch_size: " + format_number(size) + options + "}";
  }
};

/// The releases to compare: momentum in (0, 1), or prefix sums (1).
struct Question {
  double momentum = 1.0;
  std::uint64_t steps = 0;
  std::uint64_t restart_every = 0;          ///< 0: never.
  double smoothness = 0.0;                  ///< For tree_reduced; 0: not given.
  std::optional<double> gamma;              ///< For tree_reduced; nothing: auto.
  std::vector<std::uint64_t> windows = {};  ///< Lengths in steps that releases are averaged over.
  std::optional<Batches> batches = {};      ///< Samplers are compared as well.
};

/// The answer for one way to add noise.
struct Arm {
  std::string name;
  std::string aggregator;    ///< As a manifest writes it.
  std::string sampler = {};  ///< The same; empty: the manifest's.
  std::string refused = {};  ///< Why there are no numbers; empty if there are.
  PredictedNoise noise = {};
  bool needs_order = false;  ///< Each epoch in the same order: other manifests are no mistake.
};

Arm reduced_arm(const Question& question, const std::string& momentum) {
  Arm arm{.name = "tree, reduced", .aggregator = "", .needs_order = true};
  if (question.smoothness == 0.0) {
    arm.refused = "which smoothness of the loss? give --smoothness";
    return arm;
  }
  arm.aggregator = "{kind: tree_reduced" + momentum +
                   ", smoothness: " + format_number(question.smoothness) +
                   (question.gamma ? ", gamma: " + format_number(*question.gamma) : "") + "}";
  return arm;
}

Arm banded_arm(int bands, const std::string& workload, const Batches& batches) {
  const std::string count = std::to_string(bands);
  return {.name = "banded " + count + ", cyclic_poisson",
          .aggregator = "{kind: matrix, form: banded, bands: " + count + workload + "}",
          .sampler = batches.sampler("cyclic_poisson", ", cycle: " + count)};
}

Arm inverse_arm(int bands, const std::string& workload, const std::string& order) {
  const std::string count = std::to_string(bands);
  return {.name = "matrix " + count + ", shuffle",
          .aggregator = "{kind: matrix, bands: " + count + workload + "}",
          .sampler = order};
}

/// Mechanisms that the sampler belongs to, and the others with an order for all epochs. Sums of prefixes
/// have the same workload as plain gradients.
std::vector<Arm> arms_for_samplers(const Question& question, std::vector<Arm> on_order) {
  const Batches& batches = *question.batches;
  const std::string workload =
      question.momentum < 1.0 ? ", momentum: " + format_number(question.momentum) : "";
  const std::string order = batches.sampler("shuffle", ", fresh: false");
  std::vector<Arm> arms{
      {.name = "independent, poisson",
       .aggregator = "{kind: gaussian}",
       .sampler = batches.sampler("poisson")},
      {.name = "independent, allocation",
       .aggregator = "{kind: gaussian}",
       .sampler = "{kind: allocation, steps_per_epoch: " +
                  std::to_string(std::max<std::uint64_t>(
                      1, static_cast<std::uint64_t>(
                             std::llround(static_cast<double>(batches.rows) / batches.size)))) +
                  "}"}};
  for (const int bands : {2, 3, 4, 6, 8}) arms.push_back(banded_arm(bands, workload, batches));
  for (Arm& arm : on_order) {
    arm.name += ", shuffle";
    arm.sampler = order;
    arms.push_back(std::move(arm));
  }
  for (const int bands : {2, 4, 8, 16}) arms.push_back(inverse_arm(bands, workload, order));
  return arms;
}

std::vector<Arm> arms_for(const Question& question) {
  const std::string momentum =
      question.momentum < 1.0 ? ", momentum: " + format_number(question.momentum) : "";
  const std::string restarts = question.restart_every > 0
                                   ? ", restart_every: " + std::to_string(question.restart_every)
                                   : "";
  std::vector<Arm> arms{{.name = "independent", .aggregator = "{kind: gaussian}"},
                        {.name = "tree", .aggregator = "{kind: tree" + momentum + "}"}};
  const auto add = [&](const char* name, const std::string& options) {
    arms.push_back({.name = name, .aggregator = "{kind: tree" + momentum + options + "}"});
  };
  add("tree, variance reduction", ", variance_reduction: true");
  if (question.restart_every > 0) {
    add("tree, restarts", restarts);
    add("tree, restarts, completion", restarts + ", completion: true");
    add("tree, restarts, both", restarts + ", completion: true, variance_reduction: true");
  }
  if (question.momentum < 1.0) arms.push_back(reduced_arm(question, momentum));
  if (question.batches) return arms_for_samplers(question, std::move(arms));
  return arms;
}

void answer(Arm& arm, const Arguments& arguments, const Catalog& catalog,
            const Question& question) {
  if (!arm.refused.empty()) return;
  std::vector<std::string> overrides = arguments.texts("set");
  overrides.push_back("aggregator=" + arm.aggregator);
  if (!arm.sampler.empty()) overrides.push_back("sampler=" + arm.sampler);
  // The manifest's, also where it leaves them to a theorem that is about one aggregator alone.
  overrides.push_back("steps=" + std::to_string(question.steps));
  const core::Manifest manifest = core::load_manifest(arguments.operand(0), overrides, catalog);
  try {
    arm.noise = predicted_noise(core::make_plan(manifest), question.momentum, question.windows);
  } catch (const PrivacyError& problem) {
    arm.refused = problem.what();
  } catch (const Error& problem) {
    if (!arm.needs_order && arm.sampler.empty()) throw;
    arm.refused = problem.what();
  }
}

/// Those of the manifest with independent noise, which every sampler takes.
Batches batches_of(const Arguments& arguments, const Catalog& catalog) {
  std::vector<std::string> overrides = arguments.texts("set");
  overrides.emplace_back("aggregator=gaussian");
  const core::Manifest manifest = core::load_manifest(arguments.operand(0), overrides, catalog);
  const core::Plan plan = core::make_plan(manifest);
  return {plan.batch_size.front(), plan.dataset_size};
}

Question question_of(const Arguments& arguments, const core::Manifest& manifest,
                     const Catalog& catalog) {
  Question question;
  const Params& params = manifest.aggregator.params;
  const std::string& name = manifest.aggregator.name();
  if (name == "tree_reduced") {
    if (!arguments.has("momentum")) question.momentum = momentum_of(manifest);
    question.smoothness = params.real("smoothness");
    if (!params.is_auto("gamma")) question.gamma = params.real("gamma");
  } else if (name == "tree") {
    if (params.has("momentum") && !arguments.has("momentum"))
      question.momentum = momentum_of(manifest);
    if (params.has("restart_every"))
      question.restart_every = static_cast<std::uint64_t>(params.integer("restart_every"));
  } else if (name == "matrix") {
    if (params.real("momentum") > 0.0) question.momentum = params.real("momentum");
  } else if (!arguments.has("momentum")) {
    throw UsageError(
        "which momentum? give --momentum, or a manifest whose aggregator is a tree or matrix (1 is "
        "prefix sums)");
  }
  if (arguments.has("momentum")) {
    question.momentum = number_in("momentum", arguments.text("momentum"),
                                  {.low = 0.0, .high = 1.0, .with_high = true});
  }
  if (arguments.has("smoothness")) {
    question.smoothness = number_in("smoothness", arguments.text("smoothness"), {0.0, 1e300});
  }
  if (arguments.has("restart-every")) {
    question.restart_every = static_cast<std::uint64_t>(
        whole_number("restart-every", arguments.text("restart-every"), 1, 1'000'000'000));
  }
  if (arguments.has("samplers")) question.batches = batches_of(arguments, catalog);
  question.steps = manifest.steps > 0 ? manifest.steps : core::make_plan(manifest).steps();
  question.windows = arguments.has("windows")
                         ? windows_given(arguments.text("windows"), question.steps)
                         : remembered_steps(question.momentum, question.steps);
  return question;
}

/// The mechanism whose iterates have the least noise.
const Arm& best_of(const std::vector<Arm>& arms) {
  const auto noise = [](const Arm& arm) {
    return arm.refused.empty() ? arm.noise.iterates : std::numeric_limits<double>::infinity();
  };
  return *std::ranges::min_element(arms, {}, noise);
}

std::uint64_t steps_of(const std::vector<Arm>& arms) {
  std::size_t steps = 0;
  for (const Arm& arm : arms) steps = std::max(steps, arm.noise.stddev.size());
  return steps;
}

nlohmann::json json_of(const std::vector<Arm>& arms, const core::Manifest& manifest,
                       const Question& question) {
  nlohmann::json mechanisms = nlohmann::json::array();
  for (const Arm& arm : arms) {
    nlohmann::json one{
        {"name", arm.name},
        {"aggregator", arm.aggregator},
        {"sampler", arm.sampler.empty() ? nlohmann::json(nullptr) : nlohmann::json(arm.sampler)},
        {"refused", arm.refused.empty() ? nlohmann::json(nullptr) : nlohmann::json(arm.refused)}};
    if (arm.refused.empty()) {
      one["noise_multiplier"] = arm.noise.noise_multiplier;
      one["stddev"] = arm.noise.stddev;
      one["root_mean_square"] = arm.noise.root_mean_square();
      one["averaged"] = arm.noise.averaged;
      one["iterates"] = arm.noise.iterates;
    }
    mechanisms.push_back(std::move(one));
  }
  nlohmann::json json{{"name", manifest.name},
                      {"steps", steps_of(arms)},
                      {"momentum", question.momentum},
                      {"windows", question.windows},
                      {"target_epsilon", *manifest.target_epsilon},
                      {"target_delta", manifest.target_delta},
                      {"adjacency", to_text(manifest.adjacency)},
                      {"mechanisms", std::move(mechanisms)}};
  if (question.batches) json["least"] = best_of(arms).name;
  return json;
}

/// In words, with the keys of a manifest that gives it.
std::string choice_of(const std::vector<Arm>& arms) {
  const Arm& best = best_of(arms);
  return "\nleast noise in the iterates: " + best.name + "\n  --set 'sampler=" + best.sampler +
         "'\n  --set 'aggregator=" + best.aggregator +
         "'\nThat is among these mechanisms, by the optimizer's own sums: what a loss forgets of "
         "earlier noise\nis not counted, nor what batches of another kind do to the gradients.\n";
}

std::string page_of(const std::vector<Arm>& arms, const core::Manifest& manifest,
                    const Question& question) {
  std::vector<Align> columns(7 + question.windows.size(), Align::right);
  columns.front() = Align::left;
  columns.push_back(Align::left);
  Table table(columns);
  const std::uint64_t steps = steps_of(arms);
  const std::uint64_t last = steps - 1;
  const auto at = [&](const Arm& arm, std::uint64_t step) {
    return short_number(arm.noise.stddev[std::min(step, last)]);
  };
  std::vector<std::string> head{"",         "node noise", "step 1",
                                "half way", "last step",  "all steps (rms)"};
  for (const std::uint64_t window : question.windows)
    head.push_back("mean of " + std::to_string(window));
  head.emplace_back("iterates");
  head.emplace_back();
  table.add(std::move(head));
  std::string refusals;
  for (const Arm& arm : arms) {
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
         (question.momentum < 1.0 ? "momentum " + format_number(question.momentum)
                                  : std::string("prefix sums")) +
         ",\nat epsilon " + format_number(*manifest.target_epsilon) + ", delta " +
         format_number(manifest.target_delta) + ", " + std::string(to_text(manifest.adjacency)) +
         ", over " + std::to_string(steps) + " steps\n\n" + table.text(2) + refusals +
         (question.batches ? choice_of(arms) : "");
}

int do_noise_error(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  if (arguments.operand_count() == 2) return compare_noise_of_two(arguments, host.catalog());
  const core::Manifest manifest = manifest_with_target(arguments, 0, host.catalog());
  const Question question = question_of(arguments, manifest, host.catalog());
  std::vector<Arm> arms = arms_for(question);
  for (Arm& arm : arms) answer(arm, arguments, host.catalog(), question);
  if (std::all_of(arms.begin(), arms.end(), [](const Arm& arm) { return !arm.refused.empty(); }))
    throw PrivacyError(arms.front().refused);
  const nlohmann::json json = json_of(arms, manifest, question);
  if (arguments.has("report"))
    core::write_atomically(arguments.text("report"), report::noise_error_page(json));
  if (arguments.has("json")) {
    print_json(json);
  } else {
    print(page_of(arms, manifest, question));
  }
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
                       {.name = "momentum",
                        .value = "M",
                        .doc = "In (0, 1]; 1 is prefix sums. Default: that of the manifest's "
                               "aggregator. Of two manifests: for the one whose noise is "
                               "independent; default: the other's."},
                       {.name = "restart-every",
                        .value = "N",
                        .doc = "Compares trees that are restarted after N steps too. Default: that "
                               "of the manifest's aggregator tree."},
                       {.name = "smoothness",
                        .value = "L",
                        .doc = "Of the loss, for tree_reduced. Default: that of the manifest's "
                               "aggregator tree_reduced; without any, the mechanism is left out."},
                       {.name = "windows",
                        .value = "N,...",
                        .doc = "Also the noise in the mean of so many releases in a row, which is "
                               "what moves a model. Default: as many as the momentum remembers, "
                               "1 / (1 - M), and ten times as many; of prefix sums none; of two "
                               "manifests those of both."},
                       {.name = "samplers",
                        .value = "",
                        .doc =
                            "Compares samplers of the same expected batch size as well, each with "
                            "the mechanisms that are proved under it, and names the one whose "
                            "iterates have the least noise, with the keys that a manifest gets "
                            "it by."},
                       {.name = "report",
                        .value = "FILE",
                        .doc = "Write the table and a chart of every step as one HTML page."},
                       {.name = "json",
                        .value = "",
                        .doc = "Print one JSON document, with every step of every mechanism."},
                       plugin_dir_option()},
           .details =
               "Noise is in the units of the released gradient: the clip norm over the "
               "batch size. A mechanism\nthat nothing is proved for under the manifest's "
               "sampler is listed with the reason: trees need\na sampler whose order is "
               "public (shuffle, sequential, full_batch), and tree_reduced one whose "
               "epochs are\nall in the same order.\n\nIterates are the releases added up with the "
               "learning "
               "rates (over their mean), as SGD does; under\nan optimizer that rescales "
               "gradients, as Adam, they are a proxy. Means of releases are simulated by the "
               "run's own recipes, with a fixed seed, to 1.6 % (4.5 % beyond\n24 000 "
               "steps). Of two manifests the lower noise is named where the two are more than 10 % "
               "apart, and\nelse that it cannot be told. Less noise says nothing of which run "
               "ends better if they take\ndifferent numbers of steps. --restart-every, "
               "--smoothness, --samplers and --report are for one manifest.",
           .examples = {"privgrad noise-error m.yaml --momentum 0.99",
                        "privgrad noise-error m.yaml --momentum 1 --restart-every 1000 --json",
                        "privgrad noise-error m.yaml --momentum 0.9 --samplers",
                        "privgrad noise-error tree.yaml reduced.yaml"}},
      .run = do_noise_error};
}

}  // namespace privgrad::tool
