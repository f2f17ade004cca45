#include "selection.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "privgrad/event.hpp"
#include "privgrad/run_count.hpp"

namespace pld {
namespace {

using namespace privgrad;

/// A factor that covers the rounding errors of the few operations behind an answer.
constexpr double kUpwards = 1.0 + 1e-12;

/// Returns the smallest ln(e^x + (1 / gamma - 1) d(x)) found for x in [0, ln(1 / gamma)]; any x
/// gives a bound. The sum is convex in e^x, so golden-section search finds the minimum.
double least_log_ratio(const std::function<double(double)>& delta, double log_inverse_gamma) {
  constexpr double kLargest = 700.0;
  constexpr double kSection = 0.6180339887498949;
  constexpr int kSections = 36;
  const double others = std::expm1(std::min(log_inverse_gamma, kLargest)) * kUpwards;
  double best = log_inverse_gamma;
  const auto at = [&](double x) {
    const double d = delta(x);
    const double found = x + (d > 0.0 ? std::log1p(others * d * std::exp(-x)) : 0.0);
    // If ln(1 / gamma) is kLargest or more, gamma underflows: `found` is a bound only if d = 0.
    if (log_inverse_gamma < kLargest || d == 0.0) best = std::min(best, found * kUpwards);
    return found;
  };
  double low = 0.0, high = std::min(log_inverse_gamma, kLargest);
  double left = high - kSection * (high - low), right = low + kSection * (high - low);
  double at_left = at(left), at_right = at(right);
  at(0.0);
  for (int i = 0; i < kSections && high - low > 1e-7; ++i) {
    if (at_left <= at_right) {
      high = std::exchange(right, left);
      at_right = at_left;
      left = high - kSection * (high - low);
      at_left = at(left);
    } else {
      low = std::exchange(left, right);
      at_left = at_right;
      right = low + kSection * (high - low);
      at_right = at(right);
    }
  }
  return best;
}

struct Point {
  long double x, h;
};

/// Drops the points that lie on or above a chord between other points.
std::vector<Point> lower_hull(const std::vector<Point>& points) {
  std::vector<Point> hull;
  for (const Point& next : points) {
    while (hull.size() >= 2) {
      const Point& a = hull[hull.size() - 2];
      const Point& b = hull.back();
      if ((b.h - a.h) * (next.x - a.x) < (next.h - a.h) * (b.x - a.x)) break;
      hull.pop_back();
    }
    hull.push_back(next);
  }
  return hull;
}

}  // namespace

Selection::Selection(double mean, double shape, RunProfile run)
    : mean_(mean), run_(std::move(run)) {
  if (shape == RepeatAndSelectEvent::kPoisson) {
    log_c_ = mean * std::min(1.0, run_.delta(0.0)) * kUpwards;
  } else {
    const double most = log_inverse_gamma(mean, shape);
    log_c_ = (1.0 + shape) * least_log_ratio(run_.delta, most) * kUpwards;
  }
}

double Selection::delta(double epsilon) const {
  if (std::isinf(log_c_)) return 1.0;
  const double x = epsilon - log_c_ - 1e-15 * (epsilon + log_c_);
  const double of_run = x >= 0.0 ? run_.delta(x) : -std::expm1(x) + std::exp(x) * run_.delta(-x);
  return std::min(1.0, mean_ * of_run * kUpwards);
}

double Selection::epsilon(double delta) const {
  const double of_run = delta / (mean_ * kUpwards);
  if (std::isinf(log_c_)) return log_c_;
  if (of_run >= 1.0 || this->delta(0.0) <= delta) return 0.0;
  return (run_.epsilon(of_run) + log_c_) * kUpwards;
}

RatioLaw Selection::law() const {
  constexpr double kBeyond = 1e-18;  // a delta that is treated as an infinite loss
  constexpr int kPoints = 120;
  // A factor far above the rounding errors of a law's masses, which are sums of terms of one sign
  // where the ratio is above 1.
  constexpr long double kSlack = 1.0L + 1e-9L;
  // A point of the other direction is left out if its x h'(1 / x) is below this, because rounding
  // would lose it in 1 - x + x h'(1 / x).
  constexpr double kLeast = 1e-12;
  const double last = std::max(1e-9, epsilon(kBeyond));
  std::vector<double> at, value;
  for (int k = 0; k <= kPoints; ++k) {
    at.push_back(last * k / kPoints);
    const double h = delta(at.back());
    value.push_back(value.empty() ? h : std::min(h, value.back()));
  }
  std::vector<Point> points{{0.0L, 1.0L}};
  for (std::size_t k = at.size(); k-- > 1;) {
    const long double x = std::exp(-at[k]);
    if (x * value[k] < kLeast) continue;
    points.push_back({x, std::min(1.0L, (1.0L - x + x * value[k]) * kSlack)});
  }
  for (std::size_t k = 0; k < at.size(); ++k)
    points.push_back({std::exp(at[k]), std::min(1.0L, value[k] * kSlack)});
  const std::vector<Point> hull = lower_hull(points);
  RatioLaw law;
  long double before = -1.0L;
  for (std::size_t k = 0; k < hull.size(); ++k) {
    const long double slope =
        k + 1 < hull.size() ? (hull[k + 1].h - hull[k].h) / (hull[k + 1].x - hull[k].x) : 0.0L;
    law.value.push_back(static_cast<double>(hull[k].x));
    law.mass.push_back(static_cast<double>(std::max(0.0L, slope - before)));
    before = std::max(before, slope);
  }
  law.beyond = static_cast<double>(hull.back().h);
  return law;
}

}  // namespace pld
