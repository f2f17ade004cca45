#include "privgrad/influence.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad {
namespace {

void check_positive(std::span<const double> influence) {
  if (influence.empty()) throw ConfigError("the influence has no steps");
  for (std::size_t t = 0; t < influence.size(); ++t) {
    // Subnormal values have too few digits to divide by.
    if (std::isfinite(influence[t]) && influence[t] >= std::numeric_limits<double>::min()) continue;
    throw ConfigError("the influence of step " + std::to_string(t) + " of " +
                      std::to_string(influence.size()) + " is " + format_number(influence[t]) +
                      ", allowed are finite numbers above 0 that a double can hold");
  }
}

std::vector<double> checked(std::vector<double> influence) {
  check_positive(influence);
  return influence;
}

void check_noise(std::span<const double> noise) {
  for (std::size_t t = 0; t < noise.size(); ++t) {
    if (std::isfinite(noise[t] * noise[t]) && noise[t] > 0.0) continue;
    throw ConfigError("the noise of step " + std::to_string(t) + " of " +
                      std::to_string(noise.size()) +
                      " is beyond the range of doubles; this influence falls too fast for so many "
                      "steps");
  }
}

double sum_of_roots(std::span<const double> influence) {
  double sum = 0.0;
  for (const double q : influence) sum += std::sqrt(q);
  return sum;
}

/// Finds the only minimum of a function in [low, high], which a grid locates roughly first.
double minimiser(const std::function<double(double)>& f, double low, double high, int cells) {
  const double width = (high - low) / cells;
  double best = low;
  for (int i = 0; i <= cells; ++i) {
    if (f(low + i * width) < f(best)) best = low + i * width;
  }
  double a = best - width;
  double b = best + width;
  const double golden = (std::sqrt(5.0) - 1.0) / 2.0;
  for (int i = 0; i < 100; ++i) {
    const double left = b - golden * (b - a);
    const double right = a + golden * (b - a);
    (f(left) < f(right) ? b : a) = f(left) < f(right) ? right : left;
  }
  return (a + b) / 2.0;
}

/// Points of a curve to which c exp(slope * x) is fitted, x from 0 to 1.
struct Curve {
  std::vector<double> x, y, weight;
};

struct Fitted {
  double slope = 0.0;
  /// The largest value of the fitted exponential, at one of the ends of the curve.
  double factor = 0.0;
};

/// exp(slope (x - 1)) for rising curves, exp(slope x) for falling curves; at most 1 in both cases.
double basis(double slope, double x) { return std::exp(slope * (slope > 0.0 ? x - 1.0 : x)); }

double best_factor(const Curve& curve, double slope) {
  double numerator = 0.0;
  double denominator = 0.0;
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    const double e = basis(slope, curve.x[i]);
    numerator += curve.weight[i] * curve.y[i] * e;
    denominator += curve.weight[i] * e * e;
  }
  return std::max(0.0, numerator / denominator);
}

Fitted fit(const Curve& curve) {
  constexpr double kSteepest = 100.0;  // no measurable curve has a ratio of e^100 between its ends
  const auto residual = [&](double slope) {
    const double c = best_factor(curve, slope);
    double sum = 0.0;
    for (std::size_t i = 0; i < curve.x.size(); ++i) {
      const double off = curve.y[i] - c * basis(slope, curve.x[i]);
      sum += curve.weight[i] * off * off;
    }
    return sum;
  };
  const double slope = minimiser(residual, -kSteepest, kSteepest, 2000);
  return {slope, best_factor(curve, slope)};
}

}  // namespace

std::vector<double> exponential_influence(std::uint64_t steps, double gamma) {
  std::vector<double> influence(steps);
  for (std::uint64_t t = 0; t < steps; ++t) {
    influence[t] = std::pow(gamma, static_cast<double>(steps - 1 - t));
  }
  return checked(std::move(influence));
}

std::vector<double> momentum_influence(std::uint64_t steps, double gamma, double beta) {
  std::vector<double> influence(steps);
  double later = 0.0;
  for (std::uint64_t t = steps; t-- > 0;) {
    // 1 - beta^(t+1), without cancellation for beta near 1.
    const double shares =
        beta > 0.0 ? -std::expm1(static_cast<double>(t + 1) * std::log(beta)) : 1.0;
    const double share = (1.0 - beta) / shares;
    const double own = std::pow(gamma, static_cast<double>(steps - 1 - t)) * share * share;
    later = own + beta * beta * later;
    influence[t] = later;
  }
  return checked(std::move(influence));
}

std::vector<double> two_exponential_influence(std::uint64_t steps, double rising, double falling,
                                              double share) {
  std::vector<double> influence(steps);
  for (std::uint64_t t = 0; t < steps; ++t) {
    influence[t] = share * std::pow(falling, static_cast<double>(t)) +
                   (1.0 - share) * std::pow(rising, static_cast<double>(steps - 1 - t));
  }
  return checked(std::move(influence));
}

std::vector<double> allocated_noise(std::span<const double> influence, double budget) {
  check_positive(influence);
  const double roots = sum_of_roots(influence);
  std::vector<double> noise;
  noise.reserve(influence.size());
  for (const double q : influence) noise.push_back(std::sqrt(roots / std::sqrt(q) / budget));
  check_noise(noise);
  return noise;
}

std::vector<double> exponentially_allocated_noise(std::uint64_t steps, double gamma,
                                                  double budget) {
  const double half_log = std::log(gamma) / 2.0;
  const auto count = static_cast<double>(steps);
  // (gamma^(-T/2) - 1) / (1 - sqrt(gamma)); its limit for gamma = 1 is T, the uniform schedule.
  const double series =
      gamma != 1.0 ? std::expm1(-count * half_log) / -std::expm1(half_log) : count;
  std::vector<double> noise;
  noise.reserve(steps);
  for (std::uint64_t t = 1; t <= steps; ++t) {
    noise.push_back(std::sqrt(series * std::exp(static_cast<double>(t) * half_log) / budget));
  }
  check_noise(noise);
  return noise;
}

double least_weighted_noise(std::span<const double> influence, double budget) {
  const double roots = sum_of_roots(influence);
  return roots * roots / budget;
}

double weighted_noise(std::span<const double> influence, std::span<const double> noise_multiplier) {
  double sum = 0.0;
  for (std::size_t t = 0; t < influence.size(); ++t) {
    sum += influence[t] * noise_multiplier[t] * noise_multiplier[t];
  }
  return sum;
}

double budget_of_noise(std::span<const double> noise_multiplier) {
  double sum = 0.0;
  for (const double sigma : noise_multiplier) sum += 1.0 / (sigma * sigma);
  return sum;
}

ExponentialDecay fit_exponential_decay(std::span<const double> values) {
  if (values.size() < 2) return {values.front(), 0.0};
  const auto span = static_cast<double>(values.size() - 1);
  Curve curve;
  for (std::size_t t = 0; t < values.size(); ++t) {
    curve.x.push_back(static_cast<double>(t) / span);
    curve.y.push_back(values[t]);
    curve.weight.push_back(1.0);
  }
  const Fitted fitted = fit(curve);
  return {fitted.factor * basis(fitted.slope, 0.0), -fitted.slope / span};
}

double fit_exponential_influence(std::span<const InfluenceEstimate> estimates) {
  const auto by_step = [](const InfluenceEstimate& a, const InfluenceEstimate& b) {
    return a.step < b.step;
  };
  const auto [first, last] = std::ranges::minmax_element(estimates, by_step);
  if (estimates.empty() || first->step == last->step) {
    throw ConfigError("an exponential needs estimates of at least two different steps");
  }
  const bool weighed = std::ranges::all_of(
      estimates, [](const auto& estimate) { return estimate.standard_error > 0.0; });
  const auto span = static_cast<double>(last->step - first->step);
  Curve curve;
  for (const InfluenceEstimate& estimate : estimates) {
    curve.x.push_back(static_cast<double>(estimate.step - first->step) / span);
    curve.y.push_back(estimate.influence);
    curve.weight.push_back(weighed ? 1.0 / (estimate.standard_error * estimate.standard_error)
                                   : 1.0);
  }
  const Fitted fitted = fit(curve);
  if (fitted.factor <= 0.0) {
    throw ConfigError("the estimates show no influence above 0; repeat the measurement more often");
  }
  return std::exp(-fitted.slope / span);
}

}  // namespace privgrad
