#include "privgrad/api/predicted_noise.hpp"

#include <algorithm>
#include <cmath>

#include "averaged_noise.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plan/components.hpp"
#include "privgrad/trust/correlated_recipes.hpp"

namespace privgrad::api {
namespace {

/// The noise of gradients that is independent in each step, accumulated with the momentum.
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

/// The noise of gradients that is partly subtracted in later steps, accumulated with the momentum:
/// m_t = momentum m_{t-1} + z_t. The noise z_t of step t contains normals that are in m_{t-1}, too.
std::vector<double> summed_windowed_noise(const core::Plan& plan, double momentum) {
  const core::CorrelatedRecipes& recipes = plan.correlated->parts.front().recipes;
  const double scale = momentum < 1.0 ? 1.0 - momentum : 1.0;
  std::vector<double> stddev;
  std::vector<double> with_normals(recipes.window() + 1,
                                   0.0);  // Cov(m_t, normal), latest normal first
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

bool releases_gradients(const core::Plan& plan) {
  return !plan.correlated || plan.correlated->parts.front().recipes.window() > 0;
}

double PredictedNoise::root_mean_square() const {
  double squares = 0.0;
  for (const double value : stddev) squares += value * value;
  return std::sqrt(squares / static_cast<double>(stddev.size()));
}

PredictedNoise predicted_noise(const core::Plan& plan, double momentum,
                               std::span<const std::uint64_t> windows) {
  const double target = *plan.manifest->target_epsilon;
  if (plan.affordable_steps < plan.steps() || plan.epsilon().value < target * (1.0 - 1e-6)) {
    throw ConfigError(
        "mechanisms are compared at the same guarantee; give schedules.noise_multiplier no scale, "
        "so that each mechanism spends privacy.target_epsilon");
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

}  // namespace privgrad::api
