#include "conversion.hpp"

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "privgrad/error.hpp"
#include "privgrad/upward.hpp"

namespace zcdp {
namespace {

using namespace privgrad;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();

// The margin for rounding errors, in ulps of the sum of the absolute values of a formula's terms.
// Each formula below has at most five terms, each accurate to a few ulps, so this is several times
// more than enough.
constexpr double kRoundings = 16.0;

/// Returns the zero of an increasing function between lo and hi, 0 < lo <= hi; the nearer end if
/// rounding moved the zero out of the bracket. The search runs over ln x, because brackets span
/// hundreds of orders of magnitude.
template <class Function>
double increasing_root(const Function& f, double lo, double hi) {
  if (f(lo) >= 0.0) return lo;
  if (f(hi) <= 0.0) return hi;
  const auto in_log = [&](double u) { return f(std::exp(u)); };
  double u_lo = std::log(lo);
  double u_hi = std::log(hi);
  if (in_log(u_lo) >= 0.0) return lo;  // exp(log(x)) may miss x by a rounding
  if (in_log(u_hi) <= 0.0) return hi;
  std::uintmax_t iterations = 500;
  const auto [below, above] = boost::math::tools::toms748_solve(
      in_log, u_lo, u_hi, boost::math::tools::eps_tolerance<double>(50), iterations);
  if (iterations >= 500) throw NumericError("zcdp: the search for the order failed");
  return std::exp(below + (above - below) / 2.0);
}

/// Returns the bound on epsilon from the order 1 + x; any x > 0 gives a valid bound.
double epsilon_at(double x, double rho, double log_inverse_delta) {
  const double a_rho = (1.0 + x) * rho;
  const double shrink = std::log1p(1.0 / x);  // -ln(1 - 1/a)
  const double tail = log_inverse_delta / x;
  const double order_term = std::log1p(x) / x;
  const double error = kRoundings * kUlp * (a_rho + shrink + tail + order_term);
  return a_rho - shrink + tail - order_term + error;
}

/// Returns ln of the bound on delta from the order a = 1 + x, x > 0, which is
/// (a-1)(a rho - epsilon) + a ln(1 - 1/a) - ln(a-1), with its two logarithms, which nearly cancel
/// for large x, merged into one.
double log_delta_at(double x, double rho, double epsilon) {
  const double spent = x * rho * (1.0 + x);  // in this order x^2 cannot overflow
  const double allowed = x * epsilon;
  const double shrink = x * std::log1p(1.0 / x);
  const double order_term = std::log1p(x);
  const double error = kRoundings * kUlp * (spent + allowed + shrink + order_term);
  return spent - allowed - shrink - order_term + error;
}

}  // namespace

Bound classic_epsilon(double rho, double delta) {
  if (rho == 0.0) return {};
  if (std::isinf(rho)) return {kInfinity};
  const double log_inverse_delta = -std::log(delta);
  // The root is split in two, because the product may underflow for the smallest rho.
  return {round_up(rho + 2.0 * std::sqrt(rho) * std::sqrt(log_inverse_delta), 8.0)};
}

Bound classic_delta(double rho, double epsilon) {
  if (rho == 0.0) return {};
  if (epsilon < rho) return {1.0};
  const double gap = (epsilon - rho) / (2.0 * std::sqrt(rho));
  const double exponent = gap * gap;
  return {std::min(1.0, round_up(std::exp(-exponent * (1.0 - 8.0 * kUlp)), 8.0))};
}

Bound optimal_epsilon(double rho, double delta) {
  if (rho == 0.0) return {};
  if (std::isinf(rho)) return {kInfinity};
  const double log_inverse_delta = -std::log(delta);
  // With x = a - 1 the derivative vanishes where rho x^2 + ln(1 + x) = ln(1/delta), whose left side
  // increases from 0 to infinity: one zero, one minimum. ln(1 + x) is between 0 and x, hence the
  // bracket.
  const double lo =
      2.0 * log_inverse_delta / (1.0 + std::sqrt(1.0 + 4.0 * rho * log_inverse_delta));
  const double hi =
      std::min(std::sqrt(log_inverse_delta) / std::sqrt(rho), std::expm1(log_inverse_delta));
  const double x =
      increasing_root([&](double t) { return rho * t * t + std::log1p(t) - log_inverse_delta; }, lo,
                      std::max(lo, hi));
  const double epsilon = epsilon_at(x, rho, log_inverse_delta);
  // A negative value proves (0, delta)-DP. In extreme cases (delta near 1, huge rho) rounding
  // can raise the value above the classic bound, which is then the better proof.
  const Bound classic = classic_epsilon(rho, delta);
  if (classic.value < epsilon) return classic;
  return {std::max(0.0, epsilon), 1.0 + x};
}

Bound optimal_delta(double rho, double epsilon) {
  if (rho == 0.0) return {};
  if (std::isinf(rho)) return {1.0};
  // The derivative of ln delta in x = a - 1 is (1 + 2x) rho - epsilon - ln(1 + 1/x), which
  // increases from -infinity to infinity. ln(1 + 1/x) <= 1/x puts its zero below hi. Orders beyond
  // 1e300 or within 1e-300 of 1 are not tried. Every order gives a proof, so orders may be left
  // out; at the omitted orders the bound is 0 or 1.
  const double hi = std::min(1e300, epsilon / rho / 2.0 + 1.0 / (std::sqrt(2.0) * std::sqrt(rho)));
  const double lo = 1e-300;
  const double x = increasing_root(
      [&](double t) { return (1.0 + 2.0 * t) * rho - epsilon - std::log1p(1.0 / t); }, lo,
      std::max(lo, hi));
  const double log_delta = log_delta_at(x, rho, epsilon);
  if (!(log_delta < 0.0)) return {1.0};
  return {std::min(1.0, round_up(std::exp(log_delta), 4.0)), 1.0 + x};
}

}  // namespace zcdp
