#include "scout.hpp"

#include <algorithm>
#include <boost/math/tools/minima.hpp>
#include <cmath>
#include <limits>
#include <utility>

namespace pld {
namespace {

// If there are more distinct steps than this, a sample represents them.
constexpr std::size_t kMostParts = 24;

constexpr double kSmallestTilt = 1e-3;
constexpr double kLargestTilt = 1e13;

// The logarithm of the mass that may be outside the window, relative to the mass inside.
const double kLogOutside = std::log(1e-11);

// The rounding noise, in nats, that a shorter window may cost.
const double kMostNoise = std::log(300.0);

// The true epsilon is hardly ever below this share of the guessed epsilon.
constexpr double kSureShare = 0.6;

template <class Function>
double best_order(const Function& f) {
  std::uintmax_t iterations = 60;
  return std::exp(boost::math::tools::brent_find_minima([&](double u) { return f(std::exp(u)); },
                                                        std::log(kSmallestTilt),
                                                        std::log(kLargestTilt), 16, iterations)
                      .first);
}

/// Finds the minimum, and its place, of a function of a distance > 0 that first decreases and then
/// increases.
template <class Function>
std::pair<double, double> best_distance(const Function& f, double scale) {
  std::uintmax_t iterations = 40;
  const double center = std::log(scale);
  const auto found = boost::math::tools::brent_find_minima(
      [&](double u) { return f(std::exp(u)); }, center - 8.0, center + 8.0, 12, iterations);
  return {std::exp(found.first), found.second};
}

}  // namespace

double log_peak(double x) { return -x * std::log1p(1.0 / x) - std::log1p(x); }

Scout::Scout(const std::vector<Step>& steps, double log_cut) {
  double total = 0.0;
  for (const Step& step : steps) total += static_cast<double>(step.count);
  const double cut = std::exp(log_cut) / total;

  const std::size_t stride = (steps.size() + kMostParts - 1) / kMostParts;
  for (std::size_t begin = 0; begin < steps.size(); begin += stride) {
    const std::size_t end = std::min(begin + stride, steps.size());
    double count = 0.0;
    for (std::size_t i = begin; i < end; ++i) count += static_cast<double>(steps[i].count);
    const std::size_t middle = begin + (end - begin) / 2;
    const std::size_t first = losses_.size();
    std::vector<Sample> samples = steps[middle].above->samples();
    std::ranges::sort(samples, [](const Sample& a, const Sample& b) { return a.loss < b.loss; });
    double beyond = 0.0;
    while (samples.size() > 1 && beyond + samples.back().p < cut) {
      beyond += samples.back().p;
      samples.pop_back();
    }
    for (const Sample& s : samples) {
      if (s.p < 1e-305) continue;
      losses_.push_back(s.loss);
      log_weights_.push_back(std::log(s.p));
    }
    parts_.push_back({middle, count, first, losses_.size(), steps[middle].above});
  }
}

Scout::Cumulants Scout::cumulants(const Part& part, double order) const {
  double top = -std::numeric_limits<double>::infinity();
  for (std::size_t i = part.begin; i < part.end; ++i) {
    top = std::max(top, log_weights_[i] + order * losses_[i]);
  }
  double sum = 0.0;
  double first = 0.0;
  double second = 0.0;
  for (std::size_t i = part.begin; i < part.end; ++i) {
    const double exponent = log_weights_[i] + order * losses_[i] - top;
    if (exponent < -50.0) continue;
    const double w = std::exp(exponent);
    sum += w;
    first += w * losses_[i];
    second += w * losses_[i] * losses_[i];
  }
  const double mean = first / sum;
  return {top + std::log(sum), mean, std::max(0.0, second / sum - mean * mean)};
}

Scout::Cumulants Scout::cumulants(double order) const {
  Cumulants total;
  for (const Part& part : parts_) {
    const Cumulants one = cumulants(part, order);
    total.value += part.count * one.value;
    total.mean += part.count * one.mean;
    total.variance += part.count * one.variance;
  }
  return total;
}

double Scout::log_moment(std::size_t step, double order) const {
  for (const Part& part : parts_) {
    if (part.step == step) return cumulants(part, order).value;
  }
  return 0.0;
}

// Canonne, Kamath and Steinke 2020, Proposition 12, with order = alpha - 1.
double Scout::renyi_epsilon(double order, double log_delta) const {
  return (cumulants(order).value + log_peak(order) - log_delta) / order;
}
double Scout::renyi_log_delta(double order, double epsilon) const {
  return cumulants(order).value - order * epsilon + log_peak(order);
}

Plan Scout::plan(const Question& question) const {
  if (!question.wants_epsilon) {
    const double order = best_order([&](double a) { return renyi_log_delta(a, question.given); });
    return plan_at(question.given, std::min(0.0, renyi_log_delta(order, question.given)));
  }
  const double log_delta = std::log(question.given);
  const double order = best_order([&](double a) { return renyi_epsilon(a, log_delta); });
  return plan_at(std::max(0.0, renyi_epsilon(order, log_delta)), log_delta);
}

Plan Scout::plan_at(double epsilon, double log_delta) const {
  Plan plan;
  plan.epsilon = epsilon;
  plan.log_delta = log_delta;
  // Chooses the saddle point, where rounding noise is smallest relative to delta.
  plan.tilt = best_order([&](double a) { return cumulants(a).value - a * epsilon + log_peak(a); });
  find_top(plan);
  Plan best = with_window(plan, plan.tilt);
  // With heavy tails the tilted measure may be far wider than the answer needs. A smaller tilt then
  // gives a shorter window with more rounding noise.
  const auto exponent = [&](double order) {
    return cumulants(order).value - order * plan.epsilon + log_peak(order);
  };
  const double least = exponent(plan.tilt);
  double tilt = plan.tilt;
  while (best.high > 1.2 * plan.high) {
    tilt *= 0.9;
    if (exponent(tilt) > least + kMostNoise) break;
    const Plan other = with_window(plan, tilt);
    if (other.high - other.low < best.high - best.low) best = other;
    if (tilt < 0.2 * plan.tilt) break;
  }
  return best;
}

/// Finds the end of the window, above which losses do not affect delta.
void Scout::find_top(Plan& plan) const {
  const double wanted = plan.log_delta + kLogOutside;
  const auto [distance, top] = best_distance(
      [&](double d) { return (cumulants(plan.tilt + d).value - wanted) / (plan.tilt + d); },
      std::max(1e-3, plan.tilt));
  plan.high_order = plan.tilt + distance;
  plan.high = top;
}

Plan Scout::with_window(Plan plan, double tilt) const {
  const Cumulants center = cumulants(tilt);
  plan.tilt = tilt;
  plan.deviation = std::sqrt(center.variance);
  const double scale = 4.0 / std::max(plan.deviation, 1e-12);

  // Finds both ends of the tilted measure by Chernoff's bound.
  const auto end = [&](double distance) {
    return (cumulants(tilt + distance).value - center.value - kLogOutside) / std::fabs(distance);
  };
  const auto [down, bottom] = best_distance([&](double d) { return end(-d); }, scale);
  const auto [up, far] = best_distance(end, scale);
  plan.low_order = tilt - down;
  plan.far_order = tilt + up;
  plan.low = -bottom;

  // The window begins below the answer and ends above it. Mass that wraps around to below the
  // answer is harmless.
  plan.low = std::min(plan.low, plan.epsilon - plan.deviation);
  plan.high = std::max(
      {plan.high, plan.epsilon + plan.deviation, plan.low + far - kSureShare * plan.epsilon});
  return plan;
}

double Scout::variance_of_rounding(double tilt, double h) const {
  double total = 0.0;
  for (const Part& part : parts_) {
    double top = -std::numeric_limits<double>::infinity();
    for (std::size_t i = part.begin; i < part.end; ++i) {
      top = std::max(top, log_weights_[i] + tilt * losses_[i]);
    }
    double sum = 0.0;
    double variance = 0.0;
    const double anchor = part.pair->anchor(h);
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const double w = std::exp(log_weights_[i] + tilt * losses_[i] - top);
      sum += w;
      variance += w * std::min(0.25 * h * h, h * std::fabs(losses_[i] - anchor));
    }
    total += part.count * variance / sum;
  }
  return total;
}

double Scout::grid_step(const Plan& plan, const Question& question, double width) const {
  // An additional variance v adds v (1 + tilt) tilt / 2 to ln(delta), and v (1 + tilt) / 2 to
  // epsilon.
  const double factor =
      0.5 * (1.0 + plan.tilt) * (question.wants_epsilon ? 1.0 : std::max(plan.tilt, 1e-3));
  const double target = width / factor;
  double lo = std::log(1e-14);
  double hi = std::log(100.0);
  for (int i = 0; i < 24; ++i) {
    const double middle = 0.5 * (lo + hi);
    (variance_of_rounding(plan.tilt, std::exp(middle)) > target ? hi : lo) = middle;
  }
  return std::exp(lo);
}

}  // namespace pld
