#include "privgrad/statistics/audit_statistics.hpp"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>

namespace privgrad::core {
namespace {

/// A bound on the relative error of computed probabilities, by which they are moved to the safe
/// side.
constexpr double kSlack = 1e-9;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double phi_inverse(double p) {
  if (p <= 0.0) return -kInfinity;
  if (p >= 1.0) return kInfinity;
  return boost::math::quantile(boost::math::normal(), p);
}

/// log Phi(-x) for x > 0, even if Phi(-x) underflows.
double log_tail(double x) {
  if (x < 30.0) return std::log(phi(-x));
  const double y = 1.0 / (x * x);
  return -0.5 * x * x - std::log(x * std::sqrt(2.0 * M_PI)) + std::log1p(y * (3.0 * y - 1.0));
}

/// \returns the upper end, to within 1e-6, of the interval from 0 in which holds(x) is true; 0 if
///   there is no such interval, and `most` if holds(x) is true at the first power of two x that is
///   not below `most`.
template <class Predicate>
double largest(double most, const Predicate& holds) {
  if (!holds(0.0)) return 0.0;
  double low = 0.0, high = 1.0;
  while (holds(high)) {
    if (high >= most) return most;
    low = high;
    high *= 2.0;
  }
  while (high - low > 1e-6) {
    const double middle = 0.5 * (low + high);
    (holds(middle) ? low : high) = middle;
  }
  return low;
}

constexpr double kMostEpsilon = 700.0, kMostMu = 64.0;

}  // namespace

double binomial_tail(std::uint64_t n, double p, std::uint64_t k) {
  if (k == 0) return 1.0;
  if (k > n || p <= 0.0) return 0.0;
  if (p >= 1.0) return 1.0;
  const boost::math::binomial law(static_cast<double>(n), p);
  return boost::math::cdf(boost::math::complement(law, static_cast<double>(k - 1)));
}

double proportion_above(std::uint64_t successes, std::uint64_t trials, double level) {
  if (successes == 0) return 0.0;
  return boost::math::binomial::find_lower_bound_on_p(
      static_cast<double>(trials), static_cast<double>(successes), level * (1.0 - kSlack));
}

double proportion_below(std::uint64_t successes, std::uint64_t trials, double level) {
  if (successes == trials) return 1.0;
  return boost::math::binomial::find_upper_bound_on_p(
      static_cast<double>(trials), static_cast<double>(successes), level * (1.0 - kSlack));
}

double one_run_p_value(const Guesses& guesses, double epsilon, double delta) {
  const double q = 1.0 / (1.0 + std::exp(-epsilon));
  const auto made = static_cast<double>(guesses.made);
  double p = binomial_tail(guesses.made, q, guesses.correct);
  if (delta > 0.0) {
    const boost::math::binomial law(made, q);
    double sum = 0.0, steepest = 0.0;
    for (std::uint64_t i = 1; i <= guesses.correct; ++i) {
      sum += boost::math::pdf(law, static_cast<double>(guesses.correct - i));
      steepest = std::max(steepest, sum / static_cast<double>(i));
    }
    p += 2.0 * static_cast<double>(guesses.canaries) * delta * steepest;
  }
  return std::min(1.0, p * (1.0 + kSlack));
}

double one_run_epsilon(const Guesses& guesses, double delta, double level) {
  return largest(kMostEpsilon,
                 [&](double epsilon) { return one_run_p_value(guesses, epsilon, delta) < level; });
}

double TradeOff::least_probability(double y) const {
  if (is_gaussian) return phi(phi_inverse(y) - parameter);
  return std::max(
      {0.0, (y - delta) * std::exp(-parameter), 1.0 - delta - std::exp(parameter) * (1.0 - y)});
}

/// Let p_k be the probability that k of the r guesses are right, R_j = (1/m) times the sum of k p_k
/// over k >= j, and H_j = (1/m) times the sum of (r - k) p_k over k >= j. For every j >= 1
///
///     R_j <= 1 - f(H_{j-1}).                                                               (1)
///
/// Here either f is symmetric, or 1 - f is the mean of the two directions for the best division of
/// x between them, so that 1 - f(x) is the largest (1 - f_1(x1) + 1 - f_2(x2)) / 2 with
/// x1 + x2 = 2 x.
///
/// Proof. Given all coins except coin i, the releases for the two sides of coin i have the
/// trade-off f, and a guess about i that is right for one side is wrong for the other side, given
/// the same release. Consider the event "i is guessed to be this side, and at least j - 1 of the
/// others are right", whose second part does not depend on coin i. Its probabilities x, when the
/// guess is wrong, and y, when it is right, satisfy y <= 1 - f(x), for the side's direction. Their
/// means satisfy it too, over both sides and, because 1 - f is concave, over the other coins and
/// all m canaries (Jensen). The mean of y is R_j, the expected share of right guesses, counted only
/// if at least j are right. The mean of x is H_{j-1}, the expected share of wrong guesses, counted
/// only if at least j - 1 are right.
///
/// Whether P[k >= v] can be `level` is decided by the following construction. Put all of this
/// probability at v. Then, going down from j = v, let p_{j-1} be the smallest value that (1) allows
/// for the R_j so far. If the total exceeds 1, no distribution achieves it. Proof: let M_j be the
/// sum of p_k over k >= j, for a distribution that satisfies (1), and let D denote differences from
/// the values computed here. By induction DM_j >= 0 and DR_j >= (j-1)/m DM_j. This is true at v,
/// because DM = 0 and no k is below v. H_{j-1} is at least max(H_j, least_probability(R_j)), and
/// equal to it here; R_j is not smaller than here. If p_{j-1} is 0 here, DM can only grow.
/// Otherwise H_{j-1} is not smaller than here, and with x = (j-1)/(r-j+1), R - x H does not change
/// with p_{j-1}, so that D(R_{j-1} - x H_{j-1}) = (1 + x)(DR_j - (j-1)/m DM_j) >= 0: R_{j-1} is not
/// smaller either, and neither is M_{j-1} = (m/r)(R_{j-1} + H_{j-1}). In both cases
/// DR_{j-1} = DR_j + (j-1)/m Dp_{j-1}, which is at least (j-1)/m DM_{j-1}.
///
/// The distributions that satisfy (1) form a convex set, which contains the distribution without
/// right guesses, so if `level` cannot be achieved, no larger probability can.
bool excludes(const Guesses& guesses, const std::function<double(double y)>& least_probability,
              double level) {
  const auto m = static_cast<double>(guesses.canaries);
  const auto made = static_cast<double>(guesses.made);
  const double all = made / m;
  double right = level * static_cast<double>(guesses.correct) / m;
  double wrong = level * all - right;
  for (std::uint64_t j = guesses.correct; j-- > 0;) {
    const auto k = static_cast<double>(j);
    const double needed = std::max(wrong, least_probability(right) * (1.0 - kSlack));
    right += k / (made - k) * (needed - wrong);
    wrong = needed;
    if (right + wrong > all * (1.0 + kSlack)) return true;
  }
  return false;
}

bool excludes(const Guesses& guesses, const TradeOff& trade_off, double level) {
  return excludes(
      guesses, [&](double y) { return trade_off.least_probability(y); }, level);
}

double f_dp_epsilon(const Guesses& guesses, double delta, double level) {
  return largest(kMostEpsilon, [&](double epsilon) {
    return excludes(guesses, TradeOff::approximate(epsilon, delta), level);
  });
}

double f_dp_mu(const Guesses& guesses, double level) {
  return largest(kMostMu,
                 [&](double mu) { return excludes(guesses, TradeOff::gaussian(mu), level); });
}

double repeated_mu(const Guesses& guesses, double level) {
  const double right = proportion_above(guesses.correct, guesses.canaries, level);
  return right <= 0.5 ? 0.0 : std::min(kMostMu, 2.0 * phi_inverse(right) * (1.0 - kSlack));
}

double repeated_epsilon(const Guesses& guesses, double delta, double level) {
  const double right = proportion_above(guesses.correct, guesses.canaries, level / 2.0);
  const double wrong =
      proportion_below(guesses.made - guesses.correct, guesses.canaries, level / 2.0);
  if (right <= delta) return 0.0;
  return std::max(0.0, std::log((right - delta) / wrong) - kSlack);
}

double gaussian_delta(double mu, double epsilon) {
  if (mu <= 0.0) return 0.0;
  const double missed = mu / 2.0 + epsilon / mu;
  return std::max(0.0, phi(mu / 2.0 - epsilon / mu) - std::exp(epsilon + log_tail(missed)));
}

double gaussian_epsilon(double mu, double delta) {
  if (std::isinf(mu)) return kInfinity;
  if (gaussian_delta(mu, 0.0) <= delta) return 0.0;
  double low = 0.0, high = 1.0;
  while (gaussian_delta(mu, high) > delta) high *= 2.0;
  for (int i = 0; i < 100 && high - low > 1e-9 * low; ++i) {
    const double middle = 0.5 * (low + high);
    (gaussian_delta(mu, middle) > delta ? low : high) = middle;
  }
  return low;
}

double gaussian_mu(double epsilon, double delta) {
  return largest(kMostMu, [&](double mu) { return gaussian_epsilon(mu, delta) <= epsilon; });
}

double expected_accuracy(double mu, double share) {
  // The clearest guesses have |x - mu/2| above t; x - mu/2 is N(-mu/2, 1) or N(mu/2, 1).
  double low = 0.0, high = mu / 2.0 + 40.0;
  for (int i = 0; i < 100; ++i) {
    const double t = 0.5 * (low + high);
    (phi(mu / 2.0 - t) + phi(-mu / 2.0 - t) > share ? low : high) = t;
  }
  const double right = phi(mu / 2.0 - low), wrong = phi(-mu / 2.0 - low);
  return right / (right + wrong);
}

}  // namespace privgrad::core
