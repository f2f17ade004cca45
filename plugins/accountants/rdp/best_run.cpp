#include "best_run.hpp"

#include <algorithm>
#include <cmath>

#include "privgrad/upward.hpp"

namespace rdp {

double best_of_negative_binomial(double order, double log_moment, double mean, double shape,
                                 double log_ratio) {
  const double ratios = (order - 1.0) * (1.0 + shape) * log_ratio;
  return privgrad::round_up(log_moment + std::log(mean) + ratios, 8.0);
}

double largest_log_ratio(double other_order, double log_moment, double log_inverse_gamma) {
  return privgrad::round_up((log_moment + log_inverse_gamma) / other_order, 4.0);
}

double best_of_poisson(double order, double log_moment, double mean, double delta) {
  const double exponent =
      privgrad::round_up(log_moment + (order - 1.0) * mean * std::min(1.0, delta), 6.0);
  // ln(e^-m + m e^x) = x + ln(m + e^(-m - x)). On the left side, the logarithm's argument is at
  // least 1, because m + e^-m >= 1 and x >= 0, so the result is not negative.
  const double inside = std::log(mean + std::exp(-mean - exponent));
  constexpr double kRoundings = 1e-15;
  const double sum = exponent + inside;
  return std::max(0.0, sum) + kRoundings * (exponent + std::fabs(inside) + mean + 1.0);
}

double poisson_epsilon(double order) { return std::log1p(1.0 / (order - 1.0)) * (1.0 - 1e-15); }

}  // namespace rdp
