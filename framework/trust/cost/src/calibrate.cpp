#include "privgrad/trust/calibrate.hpp"

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

namespace {

constexpr double kLargest = 60.0;  // log2 of the largest scale

/// The excess of epsilon over its target, as a function of log2 of the scale: epsilon spans many
/// powers of ten, and powers of two, which bracket the scale, are exact on this axis.
class Excess {
 public:
  Excess(const std::function<double(double scale)>& epsilon_at, double target)
      : epsilon_at_(epsilon_at), target_(target) {}

  /// The logarithm of epsilon / target, which is nearly linear in log(scale), as the solver
  /// prefers, and is clamped where it is infinite. An epsilon slightly below the target counts as a
  /// root and ends the search, because a single evaluation may take a second.
  double operator()(double log_scale) const { return at(std::exp2(log_scale)); }

  /// Above 0 if epsilon exceeds the target: their quotient, even rounded, is then above 1.
  double at(double scale) const {
    constexpr double kCloseEnough = 1e-10;  // relative difference in epsilon
    const double epsilon = epsilon_at_(scale);
    const double logarithm = std::clamp(std::log(epsilon / target_), -1e3, 1e3);
    return logarithm <= 0.0 && logarithm > -kCloseEnough ? 0.0 : logarithm;
  }

  [[noreturn]] void refuse() const {
    throw PrivacyError("no noise, however large, brings epsilon down to " + format_number(target_));
  }

 private:
  const std::function<double(double scale)>& epsilon_at_;
  double target_;
};

/// The log2 of a scale, and the excess there.
struct Point {
  double log_scale, excess;
};

/// \pre low.excess > 0 >= high.excess
double scale_between(const Excess& excess, Point low, Point high) {
  if (high.excess == 0.0) return std::exp2(high.log_scale);
  std::uintmax_t evaluations = 100;
  const auto close_enough = [](double a, double b) { return std::abs(a - b) < 1e-12; };
  // high is the side with more noise. The solver may return a point that it never evaluated, or a
  // root that is due to rounding, so the scale returned here is one that was evaluated and met the
  // target.
  double log_scale =
      boost::math::tools::toms748_solve(excess, low.log_scale, high.log_scale, low.excess,
                                        high.excess, close_enough, evaluations)
          .second;
  for (double nudge = 1e-14; excess(log_scale) > 0.0; nudge *= 2.0) log_scale += nudge;
  return std::exp2(log_scale);
}

}  // namespace

double exposing_noise(double epsilon) {
  constexpr double kDeviations = 3.0;
  return 1.0 / (kDeviations + std::sqrt(kDeviations * kDeviations + 2.0 * epsilon));
}

void refuse_delta_that_pays(double delta) {
  throw PrivacyError(
      "delta, " + format_number(delta) +
      ", is not clearly below the probability that a unit takes part at all (0.2 % at least), so "
      "noise that protects no unit that takes part would meet the target; choose a smaller delta");
}

double smallest_scale(const std::function<double(double scale)>& epsilon_at, double target,
                      double least) {
  const Excess excess(epsilon_at, target);
  least = std::max(least, kLeastScale);
  const double lowest = std::log2(least);
  Point high{std::max(0.0, lowest), excess(std::max(0.0, lowest))};
  while (high.excess > 0.0 && high.log_scale < kLargest)
    high = {high.log_scale + 1.0, excess(high.log_scale + 1.0)};
  if (high.excess > 0.0) excess.refuse();
  Point low = high;
  while (low.excess <= 0.0 && low.log_scale > lowest) {
    high = low;
    const double next = std::max(lowest, high.log_scale - 1.0);
    low = {next, excess(next)};
  }
  if (low.excess <= 0.0) return least;
  return scale_between(excess, low, high);
}

double proved_scale(const std::function<double(double scale)>& estimated_at,
                    const std::function<double(double scale)>& proved_at, double target,
                    double least) {
  constexpr double kAside = 0x1p-10;  // distance from the scale at which the slope is measured
  constexpr double kBelow = 1e-8;     // aim this far below the target, so that rounding in the
                                      // proof does not miss it
  constexpr double kNearEnough = 1e-7;
  constexpr double kLeastSlope = -0.1;  // used if no slope can be measured
  const Excess estimated(estimated_at, target);
  const Excess excess(proved_at, target);
  const double start = smallest_scale(estimated_at, target, least);
  Point low{std::log2(start), excess.at(start)};
  if (low.excess <= 0.0) return start;
  double slope = (estimated(low.log_scale + kAside) - estimated.at(start)) / kAside;
  for (double more = 1.0; low.log_scale < kLargest; more *= 2.0) {
    const double step = std::min(1.0, more * (low.excess + kBelow) / -std::min(slope, kLeastSlope));
    const Point high{low.log_scale + step, excess(low.log_scale + step)};
    if (high.excess <= 0.0) {
      return high.excess > -kNearEnough ? std::exp2(high.log_scale)
                                        : scale_between(excess, low, high);
    }
    slope = (high.excess - low.excess) / step;
    low = high;
  }
  excess.refuse();
}

std::uint64_t largest_count(const std::function<double(std::uint64_t count)>& epsilon_at,
                            double target) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  const auto fits = [&](std::uint64_t count) { return epsilon_at(count) <= target; };
  std::uint64_t fitting = 0;
  std::uint64_t exceeding = 1;
  while (fits(exceeding)) {
    if (exceeding == kMost) {
      throw PrivacyError("even " + std::to_string(kMost) + " steps stay within epsilon " +
                         format_number(target));
    }
    fitting = exceeding;
    exceeding *= 2;
  }
  while (exceeding - fitting > 1) {
    const std::uint64_t middle = fitting + (exceeding - fitting) / 2;
    (fits(middle) ? fitting : exceeding) = middle;
  }
  return fitting;
}

}  // namespace privgrad::core
