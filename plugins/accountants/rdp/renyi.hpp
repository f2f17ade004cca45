// Renyi divergences of each mechanism as log moments, all of them upper bounds.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace rdp {

/// The Renyi divergences of the mechanisms, as log moments:
/// K(a) = (a - 1) D_a(P || Q) = ln E_Q[(dP/dQ)^a], from which D_a and both conversions
/// follow. Every result is an upper bound on K even after rounding, because each function adds a
/// bound on its own rounding error.
///
/// `order` is a, finite and above 1.

/// Returns a (a - 1) rho, the bound that defines rho-zCDP. It is exact for a Gaussian, with
/// rho = (s / sigma)^2 / 2.
double concentrated_log_moment(double rho, double order);

/// Returns K for Laplace noise of `scale` times the L1 sensitivity: Mironov 2017, Proposition 6,
/// exact. In more than one dimension the worst case has all of the sensitivity in one coordinate:
/// the exact K is convex in the shift and 0 at 0, so splitting the shift cannot increase the sum.
/// \param scale  above 0.
double laplace_log_moment(double scale, double order);

/// One Poisson-sampled Gaussian: P = (1-q) N(0, s^2) + q N(1, s^2), Q = N(0, s^2), for which
/// D_a(P || Q) >= D_a(Q || P) at every order (Mironov, Talwar and Zhang 2019, Theorem 5), so its
/// moments bound both directions.
///
/// With f(t) = 1 - q + q exp(t/s - 1/(2 s^2)) and t standard normal, K = ln E[f^a], and because
/// E[f] = 1,
///     E[f^a] - 1 = E[f^a - 1 - a (f - 1)],
/// whose integrand is nowhere negative, so there is no cancellation in the sum, even for a tiny K.
/// In the strip |Im t| < pi s the integrand is analytic and |f(t + iy)| <= f(t), so the trapezoid
/// rule of step h misses at most about a share exp(y^2/2 - 2 pi y/h) of the integral for any such
/// y. One formula serves integer and fractional orders, exact up to rounding. Below sigma 0.01,
/// where it would need too many nodes and epsilon is useless anyway, Jensen's bound f^a <= 2^(a-1)
/// ((1-q)^a + (q exp(..))^a) is used.
class SampledGaussian {
 public:
  /// \param probability  q, in (0, 1).
  /// \param sigma  above 0.
  SampledGaussian(double probability, double sigma);

  /// A Poisson-sampled discrete Gaussian on the integers, with sigma and sensitivity in units of
  /// the integers: the sum over the integers is the trapezoid rule with a step of 1 / sigma. If
  /// that step is fine enough for the integral, sum and integral agree up to rounding, and a wider
  /// step is used. Its moments bound both directions for the reason given at SampledLaplace.
  static SampledGaussian discrete(double probability, double sigma, double sensitivity);

  /// Returns K at an order. Not const: it stores the nodes for the next order.
  double log_moment(double order);

 private:
  struct Node {
    double t = 0.0;       ///< The standard normal variable.
    double u = 0.0;       ///< f - 1; infinite where it overflows.
    double log_f = 0.0;   ///< ln f.
    double weight = 0.0;  ///< h times the density.
  };
  struct Sum {
    double value = 0.0;
    double error = 0.0;
    double highest = 0.0;  ///< The largest exponent encountered.
  };

  Node node(std::int64_t index) const;
  void add_range(double order, std::int64_t first, std::int64_t last, Sum& sum);
  /// The first and the last index of nodes.
  using Range = std::pair<std::int64_t, std::int64_t>;
  double log_sum_of_powers(double order, const std::vector<Range>& ranges);
  template <class Visit>
  void visit(std::int64_t first, std::int64_t last, Visit&& body);

  SampledGaussian(double probability, double sigma, double step, double weight);

  double q_, log_q_, sigma_, step_;
  double weight_;  ///< The weight of the node at 0.
  std::int64_t first_index_;
  std::vector<Node> nodes_;
};

/// One Poisson-sampled release of Laplace noise: P = (1-q) Lap(0) + q Lap(1), Q = Lap(0).
///
/// Its moments bound both directions, as for every sampled release with a symmetry that exchanges
/// its two distributions (Mironov, Talwar and Zhang 2019, Theorem 5). With L = dP'/dQ of the
/// release, for which E_Q g(L) = E_Q L g(1/L) by the symmetry, u = 1 - q + q L and
/// v = 1 - q + q / L for L >= 1, the claim E_Q f^a >= E_Q f^(1-a) follows from
/// u^a - u^(1-a) >= L (v^(1-a) - v^a), that is from sqrt(u) sinh(c x) >= L sqrt(v) sinh(c y),
/// c = a - 1/2, x = ln u, y = -ln v. At a = 1 the two are equal; x >= y, because u v >= 1; and
/// sinh(c x) / sinh(x / 2) increases with x for c >= 1/2.
///
/// K = ln E_Q[f^a], f = 1 - q + q e^l, over the losses l of the unsampled release. These are two
/// atoms and an interval between them, over which Gauss's rule is applied to panels, each with a
/// proved error. As above, the summand is f^a - 1 - a (f - 1).
class SampledLaplace {
 public:
  /// \param probability  q, in (0, 1).
  /// \param scale  above 0, divided by the sensitivity.
  SampledLaplace(double probability, double scale);

  double log_moment(double order) const;

  /// Returns the largest loss in either direction: ln f(s), because f(-s) f(s) >= 1.
  double pure_epsilon() const;

 private:
  double q_, top_;
};

/// A Gaussian on a uniformly random subset of fixed size, for neighbours that differ in one
/// exchanged example: Wang, Balle and Kasiviswanathan 2019, Theorem 27, at integer orders, and
/// linear between them (K is convex). It is an upper bound, not exact. Each term is the smaller of
/// the theorem's bounds, 4 sqrt(B B) and 2 exp((j-1) eps(j)); above order 256, or for sigma below
/// 0.3, only the second is used for j > 2, which loses little there.
///
/// The even central moments B(l) = E[(dP/dQ - 1)^l] that the theorem takes from alternating forward
/// differences are integrated directly here: a sum of non-negative terms, which loses no digits.
class SubsetGaussian {
 public:
  /// \param fraction  sampled share of the data, in (0, 1).
  /// \param sigma  half of the event's noise multiplier: the noise divided by the sensitivity to an
  ///   exchanged example, which is twice the bound on a contribution.
  SubsetGaussian(double fraction, double sigma);

  double log_moment(double order);

 private:
  double at_integer(std::int64_t order);
  double log_central_moment(std::int64_t half);

  double log_fraction_, sigma_;
  std::vector<double> log_central_;  ///< ln B(2 i), i from 1.
};

}  // namespace rdp
