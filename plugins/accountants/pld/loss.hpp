// Dominating pairs of distributions for each mechanism, given by the distribution of their privacy
// loss.
#pragma once

#include <limits>
#include <memory>
#include <vector>

namespace pld {

/// The masses above and below a threshold g of the privacy loss ln(dP/dQ), under P and under Q.
///
/// All four numbers belong to one event {loss > g} and its complement, up to the stated errors;
/// losses within `threshold_error` of g may be on the wrong side of the event.
struct Tails {
  double p_above = 0.0, p_below = 1.0;
  double q_above = 0.0, q_below = 1.0;
  double difference = 0.0;        ///< p_above - q_above, computed without cancellation.
  double relative_error = 0.0;    ///< Relative for tails of at most 1/2, absolute for larger tails.
  double difference_error = 0.0;  ///< Absolute.
  double threshold_error = 0.0;
};

/// A number and a bound on its absolute error.
struct Divergence {
  double value, error;
};

/// The largest loss and the mass under P of exactly this loss, or the smallest loss and its mass
/// under Q.
struct Extreme {
  double loss, mass;  ///< Both with a relative error of at most 2^-50.
};

/// A point of a quadrature of the loss; used for guesses, never for bounds.
struct Sample {
  double loss, p, q;
};

/// A pair of distributions (P, Q) that dominates a mechanism between neighbours, described by the
/// distribution of its privacy loss. Objects never change.
class LossPair {
 public:
  virtual ~LossPair() = default;
  LossPair(const LossPair&) = delete;
  LossPair& operator=(const LossPair&) = delete;

  virtual Tails at(double threshold) const = 0;
  /// Returns the hockey-stick divergence sup_A P(A) - e^epsilon Q(A), >= 0, for epsilon >= 0: delta
  /// of a single release.
  virtual Divergence divergence(double epsilon) const;

  virtual std::vector<Sample> samples() const = 0;

  /// Returns a loss at which a grid of this step should have a node. The loss of a rarely sampled
  /// step is nearly always close to its minimum: if the node there differs from the mean, no lower
  /// node can compensate.
  virtual double anchor(double /*step*/) const { return 0.0; }

  /// Returns a number such that all atoms of the loss are at its multiples; 0 without atoms.
  virtual double atom_unit() const { return 0.0; }

  /// Returns the largest possible loss. For larger epsilons, delta is 0, even if a grid gives more.
  virtual Extreme supremum() const { return {std::numeric_limits<double>::infinity(), 0.0}; }

  /// Returns the smallest possible loss.
  virtual Extreme infimum() const { return {-std::numeric_limits<double>::infinity(), 0.0}; }

  /// True if the pair is known only from two sides, and these are so far apart that finer grids do
  /// not narrow an interval.
  virtual bool is_one_of_two_sides() const { return false; }

  /// Whether the loss has the same distribution for (Q, P) and (P, Q).
  virtual bool symmetric() const { return true; }

 protected:
  LossPair() = default;
};

using LossPairPtr = std::shared_ptr<const LossPair>;

/// Returns N(1, sigma^2) against N(0, sigma^2).
LossPairPtr gaussian(double sigma);

/// Returns the mixture q P + (1 - q) Q against Q, for a symmetric pair (P, Q) and 0 < q < 1:
/// removing an example (Zhu, Dong and Wang 2022, Theorem 11). Its reversed() is adding one.
///
/// Proof. For x > 1 - q and y = (x - 1 + q) / q, (1-q) Q(A) + q P(A) - x Q(A) is q (P(A) - y Q(A)).
/// For x (1-q) < 1 and z = x q / (1 - x (1-q)), Q(A) - x ((1-q) Q(A) + q P(A)) is
/// (1 - x (1-q)) (Q(A) - z P(A)). For any other x, the divergences of all mechanisms are the same.
/// Both expressions increase with the divergences of (P, Q) and (Q, P), so if a pair dominates a
/// release, the sampled pair dominates the sampled release.
LossPairPtr sampled(double q, LossPairPtr pair);

/// Returns (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1), all of variance sigma^2, 0 < q <= 1:
/// one example is exchanged for another, and their contributions u and v have norms of at most 1.
///
/// Why these are the worst u and v: for epsilon >= 0 the divergence is q times the mean, under
/// N(u), of (1 - a L_0 - b L_v)_+ with a, b >= 0 and L_w = dN(w) / dN(u). The logarithms of L_0 and
/// L_v are jointly normal, with L of mean 1, and the function is convex with a mixed
/// derivative >= 0, so its mean increases with each entry of their covariance. These are |u|^2,
/// |u|^2 - u.v and |u - v|^2 over sigma^2, all of them largest for opposite u and v of norm 1
/// (interpolate between the two matrices). For epsilon < 0 exchange the roles of P and Q.
LossPairPtr sampled_gaussian_replaced(double q, double sigma);

/// Returns Laplace noise of scale `scale` around 0 and around 1.
LossPairPtr laplace(double scale);

/// Returns discrete Gaussians around 0 and around `shift` > 0; memory and time grow with sigma.
LossPairPtr discrete_gaussian(double sigma, double shift);

/// Returns (Q, P) for a pair (P, Q).
LossPairPtr reversed(LossPairPtr pair);

}  // namespace pld
