#include "privgrad/trust/calibrate.hpp"

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"

namespace privgrad::core {

double smallest_scale(const std::function<double(double scale)>& epsilon_at, double target) {
  // In log2 of the scale: epsilon runs over many powers of ten, and a bracket by doubling is then
  // exact.
  constexpr double kLargest = 60.0;
  constexpr double kCloseEnough = 1e-10;  // relative, in epsilon
  const auto excess = [&](double log_scale) {
    const double epsilon = epsilon_at(std::exp2(log_scale));
    // The logarithm is nearly linear in log(scale), which the solver likes; clamped where it is
    // infinite. Just below the target is as good as on it, and ends the search: every evaluation
    // may take an accountant a second.
    const double logarithm = std::clamp(std::log(epsilon / target), -1e3, 1e3);
    return logarithm <= 0.0 && logarithm > -kCloseEnough ? 0.0 : logarithm;
  };
  double high = 0.0;
  double at_high = excess(high);
  while (at_high > 0.0 && high < kLargest) at_high = excess(high += 1.0);
  if (at_high > 0.0) {
    throw PrivacyError("no noise, however large, brings epsilon down to " + format_number(target));
  }
  double low = high - 1.0;
  double at_low = excess(low);
  while (at_low <= 0.0 && low > -kLargest) {
    high = low;
    at_high = at_low;
    at_low = excess(low -= 1.0);
  }
  if (at_low <= 0.0) return std::exp2(high);  // even next to no noise meets the target
  if (at_high == 0.0) return std::exp2(high);

  std::uintmax_t evaluations = 100;
  const auto close_enough = [](double a, double b) { return std::abs(a - b) < 1e-12; };
  const auto [below, above] = boost::math::tools::toms748_solve(excess, low, high, at_low, at_high,
                                                                close_enough, evaluations);
  // `above` is the side with more noise. The solver may return a point that it never evaluated, and
  // a rounding error may lift one that it did: what is returned has been seen to meet the target.
  double log_scale = above;
  for (double nudge = 1e-14; excess(log_scale) > 0.0; nudge *= 2.0) log_scale += nudge;
  (void)below;
  return std::exp2(log_scale);
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
