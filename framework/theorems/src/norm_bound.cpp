#include "privgrad/theorems/norm_bound.hpp"

#include <cmath>
#include <numbers>

namespace privgrad::core {
namespace {

double log_of_delta(const NormFacts& facts) { return -std::log(facts.delta); }

/// Finds the T > 1 with T log2(T) = product by Newton's method: the left side is convex and
/// increasing, so iterates from above the root decrease to it.
double steps_with(double product) {
  double steps = 2.0 + product;
  for (int i = 0; i < 200; ++i) {
    const double next =
        steps - (steps * std::log2(steps) - product) / (std::log2(steps) + std::numbers::log2e);
    if (!(next < steps)) break;
    steps = next;
  }
  return steps;
}

/// Returns the bound of Lemmas 5 and 11 at the theorems' learning rate.
/// \param noise  the mean length of the noise in momentum.
double with_noise(const NormFacts& facts, double steps, double alpha, double noise) {
  const double eta = 1.0 / std::sqrt(facts.examples * steps);
  const MomentumFacts momentum{.clip_norm = facts.clip_norm,
                               .smoothness = facts.smoothness,
                               .examples = facts.examples,
                               .learning_rate = eta,
                               .alpha = alpha};
  // The mean of (1 - alpha)^t over T steps is at most the sum of the infinite series divided by T.
  const double error = momentum_error(momentum, (1.0 - alpha) / (alpha * steps)) + noise;
  return norm_along_descent(facts.initial_gap, eta, facts.smoothness, steps, error);
}

}  // namespace

double norm_along_descent(double fall, double learning_rate, double smoothness, double steps,
                          double mean_error) {
  return fall / (learning_rate * steps) + 0.5 * learning_rate * smoothness + 2.0 * mean_error;
}

double momentum_error(const MomentumFacts& facts, double share_of_start) {
  const double start = share_of_start * facts.clip_norm;
  const double order = facts.clip_norm * std::sqrt(facts.alpha / (2.0 - facts.alpha));
  const double a_step = facts.learning_rate * facts.smoothness;
  const double epoch = 2.0 * (facts.examples - 1.0) * a_step;
  const double memory = a_step * (1.0 - facts.alpha) / facts.alpha;
  return start + order + epoch + memory;
}

NormBound norm_bound_of_tree(const NormFacts& facts) {
  const double n = facts.examples, g = facts.clip_norm, l = facts.smoothness;
  const double log = log_of_delta(facts), root = std::sqrt(facts.parameters * log);
  const double budget = facts.epsilon * n;
  const double steps = steps_with(budget * n / root), levels = std::log2(steps);
  const double of_quarter_root = 1.5 * facts.initial_gap + 6.0 * l * std::sqrt(levels * log) +
                                 12.0 * g * std::sqrt(levels) * std::pow(log, 0.25);
  const double printed = of_quarter_root * std::pow(facts.parameters, 0.25) / std::sqrt(budget) +
                         0.75 * l * std::sqrt(root * levels / facts.epsilon) * std::pow(n, -1.5) +
                         6.0 * g / std::sqrt(n) + 6.0 * g * levels * root / budget;
  const double alpha = budget / (steps * levels * root);
  const double of_a_node = 8.0 * alpha * g * root / facts.epsilon;  // without the factor sqrt(V)
  const double noise = of_a_node * std::sqrt((std::log2(n) + 3.0) * (levels + 1.0) * steps / n);
  return {steps, printed, with_noise(facts, steps, alpha, noise)};
}

NormBound norm_bound_of_reduced_tree(const NormFacts& facts) {
  const double n = facts.examples, d = facts.parameters, g = facts.clip_norm, l = facts.smoothness;
  const double budget = facts.epsilon * n;
  const double steps = std::cbrt(std::pow(n, 7.0) * std::pow(facts.epsilon, 4.0) / (d * d));
  const double levels = std::log2(steps), k = 16.0 * levels * log_of_delta(facts);
  const double printed = (1.5 * facts.initial_gap + 24.0 * k * (g + 2.0 * l) + 12.0 * l) *
                             std::cbrt(d / (budget * budget)) +
                         6.0 * g / std::sqrt(n) + (36.0 * g + 9.0 * l) * k * std::sqrt(d) / budget;
  const double alpha = std::pow(n / steps, 0.75) * facts.epsilon / std::sqrt(d);
  const double eta = 1.0 / std::sqrt(n * steps);
  const double unit = alpha * levels * std::sqrt(d * log_of_delta(facts)) / facts.epsilon;
  const double noise = 192.0 * g + 128.0 * (g + 2.0 * l) * std::sqrt(eta * steps) +
                       16.0 * eta * l * std::sqrt(3.0 * steps * n);
  return {steps, printed, with_noise(facts, steps, alpha, noise * unit)};
}

}  // namespace privgrad::core
