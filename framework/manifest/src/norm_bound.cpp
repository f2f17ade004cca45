#include "privgrad/manifest/norm_bound.hpp"

#include <cmath>
#include <numbers>

namespace privgrad::core {
namespace {

double log_of_delta(const NormFacts& facts) { return -std::log(facts.delta); }

/// The T > 1 with T log2(T) = product, by Newton's method: the left side is convex and grows, so
/// that from above it comes down to the root.
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

/// What Lemmas 5 and 11 leave of the norm without noise: descent, its steps' curvature, the first
/// gradients, the order of the examples, and what momentum remembers of other iterates.
double without_noise(const NormFacts& facts, double steps, double alpha) {
  const double eta = 1.0 / std::sqrt(facts.examples * steps);
  return 1.5 * facts.initial_gap / (eta * steps) + 0.75 * eta * facts.smoothness +
         6.0 * facts.clip_norm * std::sqrt(alpha) + 6.0 * eta * facts.examples * facts.smoothness +
         3.0 * eta * facts.smoothness / alpha;
}

}  // namespace

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
  const double noise = 4.0 * alpha * g * levels * root * std::sqrt(steps / n) / facts.epsilon;
  return {steps, printed, without_noise(facts, steps, alpha) + 3.0 * noise};
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
  return {steps, printed, without_noise(facts, steps, alpha) + 3.0 * noise * unit};
}

}  // namespace privgrad::core
