// The best of a random number of runs, from the privacy profile of one run.
#pragma once

#include <functional>

#include "ratio_law.hpp"

namespace pld {

/// Upper bounds on the cost of one run that hold in both directions: delta(epsilon), epsilon >= 0,
/// and its inverse.
struct RunProfile {
  std::function<double(double epsilon)> delta;
  std::function<double(double delta)> epsilon;
};

/// Bounds the cost of the best of K runs (privgrad::RepeatAndSelectEvent) by the profile d(e) of
/// one run, as in Koskela, Redberg and Wang 2024.
///
/// Consider a run whose output y includes its score and a random number that breaks ties. Ordered
/// by score, y has density q and distribution function F on one data set, and q', F' on a
/// neighbour. Let f be the generating function of K. The best of K runs has the density
/// q(y) f'(F(y)). If f'(F) <= C f'(F') for all y, then for every e >= 0
///
///     integral of [q f'(F) - e^e q' f'(F')]+  <=  integral of f'(F) [q - (e^e / C) q']+
///                                             <=  f'(1) d(e - ln C),       f'(1) = E K,
///
/// and if K = 0, there is no output, with the same probability on both data sets, which adds
/// nothing. For x > 0, d(-x) <= 1 - e^-x + e^-x d(x), because the two directions have the same
/// bound. And ln C is
/// - for the truncated negative binomial distribution, f'(x) = f'(1) (gamma / u)^(1 + eta) with
///   u = gamma + (1 - gamma) (1 - x): as 1 - F' <= e^x (1 - F) + d(x) for each x >= 0,
///   u' / u <= e^x + (1 / gamma - 1) d(x), which is also at most 1 / gamma. ln C is
///   (1 + eta) times the logarithm of this bound;
/// - for a Poisson number of mean m, f'(x) = m e^(m (x - 1)), and F - F' <= d(0): m d(0).
///
/// For a run that first draws one of several candidates, the profile is at most the mixture of
/// their profiles, because the divergence is jointly convex, and thus at most the largest profile.
class Selection {
 public:
  /// \param shape  the shape of K's distribution; RepeatAndSelectEvent::kPoisson: Poisson.
  Selection(double mean, double shape, RunProfile run);

  /// Return upper bounds for both directions, rounding errors included.
  /// \param epsilon  >= 0.
  double delta(double epsilon) const;
  /// \param delta  in (0, 1).
  double epsilon(double delta) const;

  /// Returns a pair for composing with other releases: its hockey-stick divergences, in e^epsilon,
  /// are a convex polygon on or above the divergences of the selection in both directions.
  ///
  /// Let h(x), x > 0, be the divergence of order x in one direction, and g(x) in the other. h is
  /// convex, decreases from h(0) = 1, is at most delta(ln x) for x >= 1, and equals
  /// 1 - x + x g(1 / x) for x < 1. So h is at most the chords of such points, and at most their
  /// lower convex hull. A convex h that decreases from 1 no faster than 1 - x belongs to the pair
  /// whose likelihood ratio under Q has the changes of its slope as masses (Zhu, Dong and Wang
  /// 2022, Proposition 10). The mass beyond the last point is treated as an infinite loss.
  /// \pre epsilon() is finite.
  RatioLaw law() const;

 private:
  double mean_;
  RunProfile run_;
  double log_c_ = 0.0;
};

}  // namespace pld
