#include "noise_question.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::api {

void require_ranges(const NoiseQuestion& question) {
  const auto require = [](bool holds, const char* problem) {
    if (!holds) throw ConfigError(problem);
  };
  const double momentum = question.momentum.value_or(1.0);
  const double smoothness = question.smoothness.value_or(1.0);
  require(momentum > 0.0 && momentum <= 1.0, "momentum is not in (0, 1]");
  require(smoothness > 0.0 && std::isfinite(smoothness), "smoothness is not a number above 0");
  require(question.restart_every.value_or(1) > 0, "restart_every is not a number of steps above 0");
}

void require_target(const core::Manifest& manifest) {
  if (manifest.target_epsilon && !manifest.noise_off) return;
  throw ConfigError("mechanisms are compared at the same guarantee; give privacy.target_epsilon");
}

double momentum_of(const core::Manifest& manifest) {
  const Params& params = manifest.aggregator.params;
  if (!params.is_auto("momentum")) return params.real("momentum");
  const core::Plan plan = core::make_plan(manifest);
  const auto found = std::ranges::find_if(
      plan.auto_values, [](const auto& chosen) { return chosen.where == "aggregator.momentum"; });
  if (found == plan.auto_values.end()) throw PluginError("the aggregator hides its auto momentum");
  return found->value;
}

std::vector<std::uint64_t> remembered_steps(double momentum, std::uint64_t steps) {
  if (momentum >= 1.0) return {};
  const double remembered = std::round(1.0 / (1.0 - momentum));
  std::vector<std::uint64_t> windows;
  for (const double window : {remembered, 10.0 * remembered}) {
    if (window <= static_cast<double>(steps)) windows.push_back(static_cast<std::uint64_t>(window));
  }
  return windows;
}

std::vector<std::uint64_t> windows_within(const std::vector<std::uint64_t>& windows,
                                          std::uint64_t steps) {
  for (const std::uint64_t window : windows) {
    if (window >= 1 && window <= steps) continue;
    throw ConfigError("windows: " + std::to_string(window) + " is not a number of steps in [1, " +
                      std::to_string(steps) + "]");
  }
  if (!windows.empty()) return windows;
  throw ConfigError("windows is empty, expected numbers of steps as in 100,1000");
}

}  // namespace privgrad::api
