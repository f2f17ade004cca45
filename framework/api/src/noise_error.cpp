#include "privgrad/api/noise_error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "noise_question.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::api {
namespace {

/// The numbers that give different samplers the same expected batch size.
struct Batches {
  double size = 0.0;
  std::uint64_t rows = 0;

  std::string sampler(const std::string& kind, const std::string& options = "") const {
    return "{kind: " + kind + ", batch_size: " + format_number(size) + options + "}";
  }
};

/// The releases to compare: of momentum (`momentum` in (0, 1)) or of prefix sums (`momentum` 1).
struct Compared {
  double momentum = 1.0;
  std::uint64_t steps = 0;
  std::uint64_t restart_every = 0;          ///< 0: never.
  double smoothness = 0.0;                  ///< The smoothness for tree_reduced; 0: not given.
  std::optional<double> gamma;              ///< The gamma for tree_reduced; if absent: auto.
  std::vector<std::uint64_t> windows = {};  ///< Numbers of steps over which releases are averaged.
  std::optional<Batches> batches = {};      ///< Set if samplers are compared as well.
};

NoiseArm reduced_arm(const Compared& question, const std::string& momentum) {
  NoiseArm arm{.name = "tree, reduced", .aggregator = "", .needs_order = true};
  if (question.smoothness == 0.0) {
    arm.refused = "the smoothness of the loss is missing; give --smoothness";
    return arm;
  }
  arm.aggregator = "{kind: tree_reduced" + momentum +
                   ", smoothness: " + format_number(question.smoothness) +
                   (question.gamma ? ", gamma: " + format_number(*question.gamma) : "") + "}";
  return arm;
}

NoiseArm banded_arm(int bands, const std::string& workload, const Batches& batches) {
  const std::string count = std::to_string(bands);
  return {.name = "banded " + count + ", cyclic_poisson",
          .aggregator = "{kind: matrix, form: banded, bands: " + count + workload + "}",
          .sampler = batches.sampler("cyclic_poisson", ", cycle: " + count)};
}

NoiseArm inverse_arm(int bands, const std::string& workload, const std::string& order) {
  const std::string count = std::to_string(bands);
  return {.name = "matrix " + count + ", shuffle",
          .aggregator = "{kind: matrix, bands: " + count + workload + "}",
          .sampler = order};
}

/// Returns the arms to compare: first those with samplers that amplify; then `on_order` and the
/// matrices, with an order of examples that all epochs repeat.
std::vector<NoiseArm> arms_for_samplers(const Compared& question, std::vector<NoiseArm> on_order) {
  const Batches& batches = *question.batches;
  const std::string workload =
      question.momentum < 1.0 ? ", momentum: " + format_number(question.momentum) : "";
  const std::string order = batches.sampler("shuffle", ", fresh: false");
  std::vector<NoiseArm> arms{
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
  for (NoiseArm& arm : on_order) {
    arm.name += ", shuffle";
    arm.sampler = order;
    arms.push_back(std::move(arm));
  }
  for (const int bands : {2, 4, 8, 16}) arms.push_back(inverse_arm(bands, workload, order));
  return arms;
}

std::vector<NoiseArm> arms_for(const Compared& question) {
  const std::string momentum =
      question.momentum < 1.0 ? ", momentum: " + format_number(question.momentum) : "";
  const std::string restarts = question.restart_every > 0
                                   ? ", restart_every: " + std::to_string(question.restart_every)
                                   : "";
  std::vector<NoiseArm> arms{{.name = "independent", .aggregator = "{kind: gaussian}"},
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

void answer(NoiseArm& arm, const ManifestReader& read, const Compared& compared) {
  if (!arm.refused.empty()) return;
  std::vector<std::string> overrides{"aggregator=" + arm.aggregator};
  if (!arm.sampler.empty()) overrides.push_back("sampler=" + arm.sampler);
  // All arms use the manifest's number of steps, even if the manifest leaves that number to a
  // theorem about its own aggregator.
  overrides.push_back("steps=" + std::to_string(compared.steps));
  const core::Manifest manifest = read(overrides);
  try {
    arm.noise = predicted_noise(core::make_plan(manifest), compared.momentum, compared.windows);
  } catch (const PrivacyError& problem) {
    arm.refused = problem.what();
  } catch (const Error& problem) {
    if (!arm.needs_order && arm.sampler.empty()) throw;
    arm.refused = problem.what();
  }
}

/// The batches of the manifest, planned with independent noise, which every sampler supports.
Batches batches_of(const ManifestReader& read) {
  const core::Manifest manifest = read({"aggregator=gaussian"});
  const core::Plan plan = core::make_plan(manifest);
  return {plan.batch_size.front(), plan.dataset_size};
}

Compared compared_by(const NoiseQuestion& question, const core::Manifest& manifest,
                     const ManifestReader& read) {
  Compared compared;
  const Params& params = manifest.aggregator.params;
  const std::string& name = manifest.aggregator.name();
  if (name == "tree_reduced") {
    if (!question.momentum) compared.momentum = momentum_of(manifest);
    compared.smoothness = params.real("smoothness");
    if (!params.is_auto("gamma")) compared.gamma = params.real("gamma");
  } else if (name == "tree") {
    if (params.has("momentum") && !question.momentum) compared.momentum = momentum_of(manifest);
    if (params.has("restart_every"))
      compared.restart_every = static_cast<std::uint64_t>(params.integer("restart_every"));
  } else if (name == "matrix") {
    if (params.real("momentum") > 0.0) compared.momentum = params.real("momentum");
  } else if (!question.momentum) {
    throw ConfigError(kWhichMomentum);
  }
  compared.momentum = question.momentum.value_or(compared.momentum);
  compared.smoothness = question.smoothness.value_or(compared.smoothness);
  compared.restart_every = question.restart_every.value_or(compared.restart_every);
  if (question.samplers) compared.batches = batches_of(read);
  compared.steps = manifest.steps > 0 ? manifest.steps : core::make_plan(manifest).steps();
  compared.windows = question.windows ? windows_within(*question.windows, compared.steps)
                                      : remembered_steps(compared.momentum, compared.steps);
  return compared;
}

}  // namespace

const NoiseArm& NoiseOfMechanisms::best() const {
  return *std::ranges::min_element(arms, {}, [](const NoiseArm& arm) {
    return arm.refused.empty() ? arm.noise.iterates : std::numeric_limits<double>::infinity();
  });
}

NoiseOfMechanisms noise_of_mechanisms(const ManifestReader& read, const NoiseQuestion& question) {
  require_ranges(question);
  core::Manifest manifest = read({});
  require_target(manifest);
  const Compared compared = compared_by(question, manifest, read);
  std::vector<NoiseArm> arms = arms_for(compared);
  for (NoiseArm& arm : arms) answer(arm, read, compared);
  const auto is_refused = [](const NoiseArm& arm) { return !arm.refused.empty(); };
  if (std::ranges::all_of(arms, is_refused)) throw PrivacyError(arms.front().refused);
  std::size_t steps = 0;
  for (const NoiseArm& arm : arms) steps = std::max(steps, arm.noise.stddev.size());
  return {.manifest = std::move(manifest),
          .momentum = compared.momentum,
          .steps = steps,
          .windows = compared.windows,
          .samplers = question.samplers,
          .arms = std::move(arms)};
}

nlohmann::json to_json(const NoiseOfMechanisms& noise) {
  nlohmann::json mechanisms = nlohmann::json::array();
  for (const NoiseArm& arm : noise.arms) {
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
  nlohmann::json json{{"name", noise.manifest.name},
                      {"steps", noise.steps},
                      {"momentum", noise.momentum},
                      {"windows", noise.windows},
                      {"target_epsilon", *noise.manifest.target_epsilon},
                      {"target_delta", noise.manifest.target_delta},
                      {"adjacency", to_text(noise.manifest.adjacency)},
                      {"mechanisms", std::move(mechanisms)}};
  if (noise.samplers) json["least"] = noise.best().name;
  return json;
}

}  // namespace privgrad::api
