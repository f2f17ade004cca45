#include "predicted_noise.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "accountant_call.hpp"
#include "averaged_noise.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/trust/correlated_recipes.hpp"

namespace privgrad::tool {
namespace {

/// Noise that is independent between steps, summed up as the momentum does it.
std::vector<double> summed_independent_noise(const core::Plan& plan, double momentum) {
  std::vector<double> stddev;
  double variance = 0.0;
  for (std::uint64_t step = 0; step < plan.steps(); ++step) {
    const double own = plan.clip_norm[step] * plan.noise_multiplier[step] / plan.batch_size[step];
    variance = momentum * momentum * variance + own * own;
    stddev.push_back((momentum < 1.0 ? 1.0 - momentum : 1.0) * std::sqrt(variance));
  }
  return stddev;
}

/// Of gradients whose noise is partly taken back, summed up in the same way. m_t = momentum m_{t-1} +
/// z_t, and z_t shares the normals of the last steps with m_{t-1}.
std::vector<double> summed_windowed_noise(const core::Plan& plan, double momentum) {
  const core::CorrelatedRecipes& recipes = plan.correlated->parts.front().recipes;
  const double scale = momentum < 1.0 ? 1.0 - momentum : 1.0;
  std::vector<double> stddev;
  std::vector<double> with_normals(recipes.window() + 1,
                                   0.0);  // covariances of m, the latest first
  double variance = 0.0;
  for (std::uint64_t step = 0; step < plan.steps(); ++step) {
    const double unit = plan.clip_norm[step] / plan.batch_size[step];
    std::rotate(with_normals.rbegin(), with_normals.rbegin() + 1, with_normals.rend());
    with_normals.front() = 0.0;
    for (double& covariance : with_normals) covariance *= momentum;
    variance *= momentum * momentum;
    for (const NoiseTerm& term : recipes.noise(step)) {
      const double own = unit * term.multiplier;
      double& covariance = with_normals[recipes.age(step, term)];
      variance += own * (2.0 * covariance + own);
      covariance += own;
    }
    stddev.push_back(scale * std::sqrt(variance));
  }
  return stddev;
}

std::vector<double> correlated_noise(const core::Plan& plan, double momentum) {
  if (releases_gradients(plan)) return summed_windowed_noise(plan, momentum);
  const core::Components made = core::start_components(plan);
  if (made.differences != nullptr) {
    std::vector<double> stddev = made.differences->combined_noise();
    for (std::uint64_t step = 0; step < plan.steps(); ++step)
      stddev[step] *= plan.clip_norm[step] / plan.batch_size[step];
    return stddev;
  }
  const core::CorrelatedRecipes& recipes = plan.correlated->parts.front().recipes;
  core::NoiseVariance variance(recipes);
  std::vector<double> stddev;
  for (std::uint64_t step = 0; step < plan.steps(); ++step) {
    stddev.push_back(std::fabs(recipes.scale(step)) * plan.clip_norm[step] *
                     std::sqrt(variance.next()) / plan.batch_size[step]);
  }
  return stddev;
}

}  // namespace

double PredictedNoise::root_mean_square() const {
  double squares = 0.0;
  for (const double value : stddev) squares += value * value;
  return std::sqrt(squares / static_cast<double>(stddev.size()));
}

PredictedNoise predicted_noise(const core::Plan& plan, double momentum,
                               std::span<const std::uint64_t> windows) {
  const double target = *plan.manifest->target_epsilon;
  if (plan.affordable_steps < plan.steps() || plan.epsilon().value < target * (1.0 - 1e-6)) {
    throw UsageError(
        "mechanisms are compared at the same guarantee; leave the scale of "
        "schedules.noise_multiplier open, so that each of them spends privacy.target_epsilon");
  }
  PredictedNoise noise{.noise_multiplier = plan.noise_multiplier.front()};
  noise.stddev =
      plan.correlated ? correlated_noise(plan, momentum) : summed_independent_noise(plan, momentum);
  noise.iterates = noise.root_mean_square();
  if (windows.empty() && momentum == 1.0) return noise;
  AveragedNoise averaged = averaged_noise(plan, momentum, windows);
  noise.averaged = std::move(averaged.windows);
  if (momentum < 1.0) noise.iterates = averaged.iterates;
  return noise;
}

core::Manifest manifest_with_target(const Arguments& arguments, std::size_t i,
                                    const Catalog& catalog) {
  core::Manifest manifest =
      core::load_manifest(arguments.operand(i), arguments.texts("set"), catalog);
  if (manifest.target_epsilon && !manifest.noise_off) return manifest;
  throw UsageError("mechanisms are compared at the same guarantee; give privacy.target_epsilon");
}

double momentum_of(const core::Manifest& manifest) {
  const Params& params = manifest.aggregator.params;
  if (!params.is_auto("momentum")) return params.real("momentum");
  const core::Plan plan = core::make_plan(manifest);
  const auto found =
      std::find_if(plan.auto_values.begin(), plan.auto_values.end(),
                   [](const auto& chosen) { return chosen.where == "aggregator.momentum"; });
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

std::vector<std::uint64_t> windows_given(const std::string& text, std::uint64_t steps) {
  std::vector<std::uint64_t> windows;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const int most = static_cast<int>(std::min<std::uint64_t>(steps, 1'000'000'000));
    windows.push_back(static_cast<std::uint64_t>(whole_number("windows", item, 1, most)));
  }
  if (windows.empty())
    throw UsageError("--windows is empty, expected numbers of steps as in 100,1000");
  return windows;
}

}  // namespace privgrad::tool
