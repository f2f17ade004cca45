// Laws of likelihood ratios, and of sums of ratios, bounded from both sides on finitely many
// values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pld {

/// A measure on finitely many values >= 0: the distribution under Q of a likelihood ratio
/// M = dP/dQ, or a bound on this distribution from one side. P has the masses mass[k] * value[k],
/// and the mass `beyond` where Q has no mass.
struct RatioLaw {
  std::vector<double> value;  ///< Increasing.
  std::vector<double> mass;
  double beyond = 0.0;
  /// Relative errors: every mass may be off by mass_error, and every value by value_error.
  double mass_error = 0.0, value_error = 0.0;
};

/// Bounds on a law from both sides in the convex order: for every convex f >= 0 the mean of f is
/// between its means under `lower` and under `upper`, apart from rounding errors. For both
/// hockey-stick divergences, E (M - e^epsilon)_+ and E (1 - e^epsilon M)_+, this gives an upper and
/// a lower bound.
struct RatioBracket {
  RatioLaw upper, lower;
};

/// The smallest noise multiplier for which the ratios fit doubles.
inline constexpr double kSmallestAllocatedNoise = 0.05;

/// Bounds the law of the likelihood ratio of one epoch of random allocation: each example draws one
/// of `steps` steps, in which it contributes at most the clip norm to a sum with Gaussian noise.
///
/// Why this ratio. Let the example's step be i, and fix the steps of all other examples. This is
/// allowed because they are independent of i, and mixing with common weights increases no
/// hockey-stick divergence. Work in units of the clip norm. Given x in R^steps, let
/// y_j = f_j + g_j x_j + zeta_j with zeta_j ~ N(0, sigma^2 (1 - g_j g_j^T)), where f_j and g_j are
/// functions of the earlier outputs and |g_j| <= 1, so this covariance is positive semidefinite.
/// Then y is exactly the run in which the example's step is i if x ~ N(e_i, sigma^2), and exactly
/// the run without the example if x ~ N(0, sigma^2). The map from x to y does not depend on i. So
/// by data processing the uniform mixture P of the N(e_i, sigma^2) against Q = N(0, sigma^2)
/// dominates in both directions, and a constant g attains it (Chua et al. 2025). dP/dQ is the mean
/// of `steps` independent variables exp(Z / sigma - 1 / (2 sigma^2)), Z standard normal. Epochs
/// compose as dominating pairs do (Zhu, Dong and Wang 2022, Theorem 10).
///
/// How it is bracketed. Sums of independent variables preserve the convex order. Upper: the mass of
/// a cell between two nodes moves to these nodes such that mass and mean stay the same. Lower: it
/// moves to its mean. Both errors are of second order in the cells' widths.
/// \param steps  >= 1.
/// \param sigma  noise multiplier, at least kSmallestAllocatedNoise.
/// \param nodes  approximately the number of values of each law, >= 100. It affects how narrow the
///   bracket is, never whether it holds.
RatioBracket allocation_ratio(std::uint64_t steps, double sigma, std::size_t nodes);

}  // namespace pld
