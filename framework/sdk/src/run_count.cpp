#include "privgrad/run_count.hpp"

#include <cmath>
#include <limits>

namespace privgrad {
namespace {

/// ln(e^x - 1), x > 0.
double log_expm1(double x) {
  return x > 30.0 ? x + std::log1p(-std::exp(-x)) : std::log(std::expm1(x));
}

/// ln E K as a function of l = ln(1 / gamma) > 0; increasing in l.
double log_mean(double l, double shape) {
  // eta / (1 - gamma^eta) is 1 / l (1 + eta l / 2 + ...), for either sign of eta.
  const double x = shape * l;
  if (std::fabs(x) < 1e-9) return log_expm1(l) - std::log(l) + 0.5 * x;
  const double log_quotient =
      shape > 0.0 ? std::log(shape) - std::log(-std::expm1(-x)) : std::log(-shape) - log_expm1(-x);
  return log_expm1(l) + log_quotient;
}

}  // namespace

double log_inverse_gamma(double mean, double shape) {
  if (mean == 1.0) return 0.0;
  // The margin exceeds the rounding errors of log_mean(), whose terms are logarithms of l, l
  // itself, and l times at most 1 + |eta|. It also covers the rounding of ln(mean).
  const auto is_enough = [&](double l) {
    const double of_shape = shape == 0.0 ? 0.0 : std::fabs(std::log(std::fabs(shape)));
    const double size = 2.0 * (1.0 + std::fabs(shape)) * l + std::fabs(std::log(l)) + of_shape;
    return log_mean(l, shape) - 1e-15 * (size + 8.0) >= std::log(mean) * (1.0 + 1e-15);
  };
  double low = 0.0, high = 1.0;
  while (!is_enough(high)) {
    low = high;
    high *= 2.0;
    if (high > 1e15) return std::numeric_limits<double>::infinity();
  }
  for (int i = 0; i < 200 && high - low > 1e-15 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (is_enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace privgrad
