#include "gaussian.hpp"

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "privgrad/error.hpp"

namespace gdp {
namespace {

using namespace privgrad;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;

/// Returns ln of the integral over s >= 0 of exp(-a s - s^2/2) (1 - exp(-mu s)), for a >= -1.
///
/// delta(epsilon) is E[(1 - exp(epsilon - Z))^+] over the privacy loss Z ~ N(mu^2/2, mu^2).
/// Substituting Z = epsilon + mu s gives this integral times the normal density at
/// a = epsilon/mu - mu/2. Nothing cancels here, unlike in the difference of two normal tails,
/// which loses all digits for small mu.
double log_tail_integral(double a, double mu) {
  using Rule = boost::math::quadrature::gauss<double, 30>;
  // Beyond `reach` the first factor is below exp(-45).
  const double reach = 90.0 / (a + std::sqrt(a * a + 90.0));
  const auto integrand = [&](double s) {
    return -std::exp(-s * (a + 0.5 * s)) * std::expm1(-mu * s);
  };
  // For large mu the second factor rises within 1/mu: the first panel is min(reach/8, 4/mu) wide.
  double sum = 0.0;
  double left = 0.0;
  double right = std::min(reach / 8.0, 4.0 / mu);
  while (left < reach) {
    sum += Rule::integrate(integrand, left, right);
    left = right;
    right = std::min({reach, 2.0 * right, right + reach / 4.0});
  }
  return std::log(sum);
}

/// Returns ln of Mills' ratio (1 - Phi(b)) / phi(b), b >= 1: the integral of exp(-b s - s^2/2).
double log_mills(double b) {
  using Rule = boost::math::quadrature::gauss<double, 30>;
  const double reach = 90.0 / (b + std::sqrt(b * b + 90.0));
  const auto integrand = [&](double s) { return std::exp(-s * (b + 0.5 * s)); };
  double sum = 0.0;
  for (int panel = 0; panel < 4; ++panel) {
    sum += Rule::integrate(integrand, reach * panel / 4.0, reach * (panel + 1) / 4.0);
  }
  return std::log(sum);
}

}  // namespace

double log_delta(double mu, double epsilon) {
  const double ratio = epsilon / mu;
  const double a = ratio - 0.5 * mu;
  const double b = ratio + 0.5 * mu;
  if (std::isinf(ratio)) return -kInfinity;
  // The errors of a and b are at most one rounding error of b.
  const double error = kUlp * (64.0 + 4.0 * b * (std::fabs(a) + 1.0));
  double log_value = 0.0;
  if (a >= -1.0) {
    log_value = -0.5 * a * a - kLogSqrtTwoPi + log_tail_integral(a, mu);
  } else {
    // Here mu > 2, and the second term is well below the first. e^epsilon Phi(-b) is computed as
    // phi(a) times Mills' ratio of b, which cannot overflow.
    const double sqrt_half = std::sqrt(0.5);
    const double first = 0.5 * std::erfc(a * sqrt_half);
    const double log_second = -0.5 * a * a - kLogSqrtTwoPi + log_mills(b);
    log_value = std::log(first - std::exp(log_second));
  }
  return std::min(0.0, log_value + error);
}

double epsilon(double mu, double delta) {
  const double target = std::log(delta);
  if (log_delta(mu, 0.0) <= target) return 0.0;
  // The classic conversion of mu^2/2-zCDP gives more than the exact epsilon.
  double high = 0.5 * mu * mu + mu * std::sqrt(-2.0 * target);
  const auto gap = [&](double e) { return log_delta(mu, e) - target; };
  while (!(gap(high) <= 0.0)) high *= 1.0 + 1e-12;  // rounding may make `high` too small
  std::uintmax_t iterations = 200;
  const auto [below, above] = boost::math::tools::toms748_solve(
      gap, 0.0, high, boost::math::tools::eps_tolerance<double>(50), iterations);
  if (iterations >= 200) throw NumericError("gdp: the search for epsilon failed");
  // log_delta is rounded up, so every epsilon at which log_delta is below the target is valid.
  double value = above;
  for (double step = kUlp; !(gap(value) <= 0.0); step *= 2.0) value += above * step;
  return value;
}

}  // namespace gdp
