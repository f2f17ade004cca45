#include "audit_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "canary_choice.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

/// Whether every charged release is Gaussian: all releases together are then Gaussian, for any size
/// of the noise.
bool is_gaussian(const Event& event) {
  if (std::holds_alternative<GaussianEvent>(event.kind())) return true;
  if (const auto* all = std::get_if<ComposedEvent>(&event.kind()))
    return std::ranges::all_of(all->of, is_gaussian);
  if (const auto* many = std::get_if<SelfComposedEvent>(&event.kind()))
    return is_gaussian(*many->of);
  return false;
}

/// The largest number of different releases; it limits the time.
constexpr std::size_t kMostKinds = 64;
/// The precision for planning the number of guesses; low, because computing curves takes long.
constexpr double kPlanningStep = 0x1p-5;

/// The sampled release that a charge pays for; nothing if the charge is of a different kind.
std::optional<SampledRelease> sampled_release(const CountedEvent& charge) {
  const Event* event = &charge.event;
  double probability = 1.0;
  if (const auto* sampled = std::get_if<PoissonSampledEvent>(&event->kind())) {
    probability = sampled->sampling_probability;
    event = sampled->of.get();
  }
  const auto* gaussian = std::get_if<GaussianEvent>(&event->kind());
  if (gaussian == nullptr || probability <= 0.0) return std::nullopt;
  return SampledRelease{probability, gaussian->noise_multiplier, charge.count};
}

AuditBound planned_by(const SampledFamily& family, const AuditOptions& options,
                      std::uint64_t coins) {
  AuditBound bound{
      .method = options.kind == AuditKind::repeated ? "repeated_sampled" : "one_run_sampled",
      .assumes_gaussian = true,
      .assumes_sampling = true,
      .guesses = {coins, coins, 0}};
  if (options.kind == AuditKind::repeated) return bound;
  const double level = 1.0 - options.confidence;
  bound.guesses = best_guesses_by(
      coins, [&](double share) { return family.at(1.0).expected_accuracy(share); },
      [&](const Guesses& g) { return family.one_run_factor(g, level, kPlanningStep); });
  bound.guesses.correct = 0;
  return bound;
}

}  // namespace

std::optional<SampledFamily> sampled_family(const Event& charged, Adjacency adjacency) {
  std::vector<SampledRelease> releases;
  bool is_sampled = false;
  for (const CountedEvent& charge : flatten(charged)) {
    const auto release = sampled_release(charge);
    if (!release) return std::nullopt;
    is_sampled = is_sampled || release->probability < 1.0;
    const auto same = std::ranges::find_if(releases, [&](const auto& known) {
      return known.probability == release->probability &&
             known.noise_multiplier == release->noise_multiplier;
    });
    if (same != releases.end()) {
      same->count += release->count;
    } else if (releases.size() == kMostKinds) {
      return std::nullopt;
    } else {
      releases.push_back(*release);
    }
  }
  if (!is_sampled) return std::nullopt;
  return SampledFamily(std::move(releases), adjacency == Adjacency::replace_one
                                                ? CoinSides::opposites
                                                : CoinSides::there_or_not);
}

std::vector<AuditBound> planned_bounds(const Plan& plan, const AuditOptions& options,
                                       std::uint64_t canaries,
                                       const std::optional<SampledFamily>& family) {
  const double delta = plan.manifest->target_delta, a = 1.0 - options.confidence;
  const double epsilon = plan.epsilon().value;
  const double mu = std::isfinite(epsilon) ? gaussian_mu(epsilon, delta) : 30.0;
  const std::uint64_t coins =
      options.kind == AuditKind::repeated ? guessed_runs(options.runs, canaries) : canaries;
  std::vector<AuditBound> bounds;
  const auto add = [&](const char* method, bool assumes_gaussian, const auto& bound) {
    Guesses guesses = best_guesses(coins, mu, bound);
    guesses.correct = 0;
    bounds.push_back({.method = method, .assumes_gaussian = assumes_gaussian, .guesses = guesses});
  };
  if (options.kind == AuditKind::repeated) {
    bounds.push_back(
        {.method = "repeated_gaussian", .assumes_gaussian = true, .guesses = {coins, coins, 0}});
    add("repeated", false, [&](const Guesses& g) { return repeated_epsilon(g, delta, a); });
  } else {
    add("one_run_gaussian", true, [&](const Guesses& g) { return f_dp_mu(g, a); });
    add("one_run_f_dp", false, [&](const Guesses& g) { return f_dp_epsilon(g, delta, a); });
    add("one_run", false, [&](const Guesses& g) { return one_run_epsilon(g, delta, a); });
  }
  if (!is_gaussian(plan.event) || plan.manifest->noise_off)
    std::rotate(bounds.begin(), bounds.begin() + 1, bounds.end());
  if (family) bounds.insert(bounds.begin(), planned_by(*family, options, coins));
  return bounds;
}

void evaluate(AuditResult& result, std::vector<AuditGuess> guesses,
              const std::optional<SampledFamily>& family) {
  std::ranges::stable_sort(guesses, [](const AuditGuess& a, const AuditGuess& b) {
    return std::fabs(a.score) > std::fabs(b.score);
  });
  for (AuditBound& bound : result.bounds) {
    const auto end = guesses.begin() + static_cast<std::ptrdiff_t>(bound.guesses.made);
    bound.guesses.correct = static_cast<std::uint64_t>(std::count_if(
        guesses.begin(), end, [](const AuditGuess& guess) { return guess.is_right; }));
    bound = bound_by(bound.method, bound.guesses, result.delta, result.confidence, family);
  }
}

void check_not_stopped(const AuditOptions& options) {
  if (options.stop != nullptr && options.stop->load())
    throw Error("interrupted: an incomplete audit proves nothing");
}

AuditBound bound_by(const std::string& method, const Guesses& guesses, double delta,
                    double confidence, const std::optional<SampledFamily>& family) {
  const double level = 1.0 - confidence;
  const auto gaussian = [&](double mu) {
    return AuditBound{.method = method,
                      .assumes_gaussian = true,
                      .guesses = guesses,
                      .epsilon = gaussian_epsilon(mu, delta),
                      .mu = mu};
  };
  const auto any = [&](double epsilon) {
    return AuditBound{.method = method, .guesses = guesses, .epsilon = epsilon};
  };
  const auto sampled = [&](double factor) {
    return AuditBound{.method = method,
                      .assumes_gaussian = true,
                      .assumes_sampling = true,
                      .guesses = guesses,
                      .epsilon = family->epsilon(factor, delta),
                      .factor = factor};
  };
  if (family && method == "one_run_sampled") return sampled(family->one_run_factor(guesses, level));
  if (family && method == "repeated_sampled")
    return sampled(family->repeated_factor(guesses, level));
  if (method == "repeated_gaussian") return gaussian(repeated_mu(guesses, level));
  if (method == "one_run_gaussian") return gaussian(f_dp_mu(guesses, level));
  if (method == "repeated") return any(repeated_epsilon(guesses, delta, level));
  if (method == "one_run_f_dp") return any(f_dp_epsilon(guesses, delta, level));
  if (method == "one_run") return any(one_run_epsilon(guesses, delta, level));
  throw ConfigError("method: is '" + method + "', which no audit of such releases has");
}

nlohmann::json to_json(const AuditResult& result) {
  const auto assumed = [](const AuditBound& bound) -> nlohmann::json {
    if (bound.assumes_sampling) return "sampled_gaussian_releases";
    if (bound.assumes_gaussian) return "gaussian_releases";
    return nullptr;
  };
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  nlohmann::json bounds = nlohmann::json::array();
  for (const AuditBound& bound : result.bounds) {
    bounds.push_back(
        {{"method", bound.method},
         {"assumes", assumed(bound)},
         {"epsilon_lower", number(bound.epsilon)},
         {"mu_lower",
          bound.assumes_gaussian && !bound.assumes_sampling ? number(bound.mu) : nullptr},
         {"noise_at_most",
          bound.assumes_sampling && bound.factor > 0.0 ? number(1.0 / bound.factor) : nullptr},
         {"guesses", bound.guesses.made},
         {"correct", bound.guesses.correct}});
  }
  nlohmann::json json{{"epsilon_lower", number(result.bound().epsilon)},
                      {"epsilon_upper", number(result.epsilon_upper)},
                      {"delta", result.delta},
                      {"confidence", result.confidence},
                      {"method", result.bound().method},
                      {"canaries", result.canaries},
                      {"runs", result.runs},
                      {"steps", result.steps},
                      {"guesses", result.bound().guesses.made},
                      {"correct", result.bound().guesses.correct},
                      {"contradicts", result.contradicts()},
                      {"bounds", std::move(bounds)},
                      {"seconds", result.seconds}};
  if (const auto& exposure = result.exposure) {
    json["exposure"] = {{"mean_bits", exposure->mean_bits},
                        {"most_expected_bits", exposure->most_expected_bits},
                        {"most_bits", exposure->most_bits()},
                        {"trained", exposure->trained},
                        {"references", exposure->references}};
  }
  return json;
}

double Exposure::most_bits() const { return std::log2(static_cast<double>(references) + 1.0); }

}  // namespace privgrad::core
