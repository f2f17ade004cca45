#include "audit_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

/// Whether all that is charged for is Gaussian, so that all releases together are, whatever the size
/// of the noise.
bool is_gaussian(const Event& event) {
  if (std::holds_alternative<GaussianEvent>(event.kind())) return true;
  if (const auto* all = std::get_if<ComposedEvent>(&event.kind()))
    return std::all_of(all->of.begin(), all->of.end(), is_gaussian);
  if (const auto* many = std::get_if<SelfComposedEvent>(&event.kind()))
    return is_gaussian(*many->of);
  return false;
}

}  // namespace

std::vector<AuditBound> planned_bounds(const Plan& plan, const AuditOptions& options,
                                       std::uint64_t canaries) {
  const double delta = plan.manifest->target_delta, a = 1.0 - options.confidence;
  const double epsilon = plan.epsilon().value;
  const double mu = std::isfinite(epsilon) ? gaussian_mu(epsilon, delta) : 30.0;
  const std::uint64_t coins = options.kind == AuditKind::repeated ? options.runs : canaries;
  std::vector<AuditBound> bounds;
  const auto add = [&](const char* method, bool assumes_gaussian, const auto& bound) {
    Guesses guesses = best_guesses(coins, mu, bound);
    guesses.correct = 0;
    bounds.push_back({method, assumes_gaussian, guesses, 0.0, 0.0});
  };
  if (options.kind == AuditKind::repeated) {
    bounds.push_back({"repeated_gaussian", true, {coins, coins, 0}, 0.0, 0.0});
    add("repeated", false, [&](const Guesses& g) { return repeated_epsilon(g, delta, a); });
  } else {
    add("one_run_gaussian", true, [&](const Guesses& g) { return f_dp_mu(g, a); });
    add("one_run_f_dp", false, [&](const Guesses& g) { return f_dp_epsilon(g, delta, a); });
    add("one_run", false, [&](const Guesses& g) { return one_run_epsilon(g, delta, a); });
  }
  if (!is_gaussian(plan.event) || plan.manifest->noise_off)
    std::rotate(bounds.begin(), bounds.begin() + 1, bounds.end());
  return bounds;
}

void evaluate(AuditResult& result, std::vector<AuditGuess> guesses) {
  std::stable_sort(guesses.begin(), guesses.end(), [](const AuditGuess& a, const AuditGuess& b) {
    return std::fabs(a.score) > std::fabs(b.score);
  });
  for (AuditBound& bound : result.bounds) {
    const auto end = guesses.begin() + static_cast<std::ptrdiff_t>(bound.guesses.made);
    bound.guesses.correct = static_cast<std::uint64_t>(std::count_if(
        guesses.begin(), end, [](const AuditGuess& guess) { return guess.is_right; }));
    bound = bound_by(bound.method, bound.guesses, result.delta, result.confidence);
  }
}

void check_not_stopped(const AuditOptions& options) {
  if (options.stop != nullptr && options.stop->load())
    throw Error("interrupted: an audit that is not whole says nothing");
}

AuditBound bound_by(const std::string& method, const Guesses& guesses, double delta,
                    double confidence) {
  const double level = 1.0 - confidence;
  const auto gaussian = [&](double mu) {
    return AuditBound{method, true, guesses, gaussian_epsilon(mu, delta), mu};
  };
  const auto any = [&](double epsilon) { return AuditBound{method, false, guesses, epsilon, 0.0}; };
  if (method == "repeated_gaussian") return gaussian(repeated_mu(guesses, level));
  if (method == "one_run_gaussian") return gaussian(f_dp_mu(guesses, level));
  if (method == "repeated") return any(repeated_epsilon(guesses, delta, level));
  if (method == "one_run_f_dp") return any(f_dp_epsilon(guesses, delta, level));
  if (method == "one_run") return any(one_run_epsilon(guesses, delta, level));
  throw ConfigError("method: is '" + method + "', which is none of an audit");
}

nlohmann::json to_json(const AuditResult& result) {
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  nlohmann::json bounds = nlohmann::json::array();
  for (const AuditBound& bound : result.bounds) {
    bounds.push_back({{"method", bound.method},
                      {"assumes", bound.assumes_gaussian ? nlohmann::json("gaussian_releases")
                                                         : nlohmann::json(nullptr)},
                      {"epsilon_lower", number(bound.epsilon)},
                      {"mu_lower", bound.assumes_gaussian ? number(bound.mu) : nullptr},
                      {"guesses", bound.guesses.made},
                      {"correct", bound.guesses.correct}});
  }
  return {{"epsilon_lower", number(result.bound().epsilon)},
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
}

}  // namespace privgrad::core
