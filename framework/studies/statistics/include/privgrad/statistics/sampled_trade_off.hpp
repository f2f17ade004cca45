// Trade-off functions of Poisson-sampled Gaussian releases, for audits of sampled runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "privgrad/statistics/audit_statistics.hpp"

/// How well a canary of a sampled run can be told apart: trade-off functions of Poisson-sampled
/// Gaussian releases, composed numerically. Pure functions, independent of any accountant: an audit
/// that asked the accountant which guesses are too good could not find the accountant wrong.
namespace privgrad::core {

/// A number of identical releases.
struct SampledRelease {
  double probability = 1.0;       ///< The canary's, of being drawn; in (0, 1].
  double noise_multiplier = 0.0;  ///< > 0; in units of the canary's contribution.
  std::uint64_t count = 0;
};

/// The two laws that a coin decides between.
enum class CoinSides {
  there_or_not = 1,  ///< (1 - q) N(0, z^2) + q N(1, z^2), or N(0, z^2).
  opposites,         ///< (1 - q) N(0, z^2) + q N(1, z^2), or the same of -1.
};

/// Guesses of an adversary who sees all releases and knows everything but one canary's coin: how
/// rarely they can be wrong for how often they are right, averaged over both sides of the coin.
class GuessCurve {
 public:
  /// \returns a lower bound on P[the guess is made and wrong] among all rules that make a guess and
  ///   are right with probability y. Convex but for roundings, and 0 at 0.
  double least_probability(double y) const;
  /// \returns the share of right ones among the guesses of the clearest `share` of canaries.
  /// \param share  in (0, 1].
  double expected_accuracy(double share) const;

 private:
  friend class LossLaw;
  std::vector<double> right_, wrong_;  // sums over all losses from the largest down to this one
  double slack_ = 0.0;
};

/// The law of the privacy loss log(dP/dQ) of all releases together, under P and under Q, on a grid
/// of losses.
///
/// Between two grid points the masses of a single release are moved to these two so that the masses
/// under P and under Q both stay the same ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar and
/// Manurangsi 2022). This spreads the likelihood ratio and keeps its mean under Q, so that every
/// hockey-stick divergence grows: the pair on the grid dominates the pair, and so do their
/// compositions (Blackwell). Mass beyond the grid is moved to the last point and to infinity in the
/// same way. Powers are taken by Fourier transforms; what wraps around, by Chernoff's bound, and
/// what rounding adds, is in the curve's slack. So trade-off functions err to the side of an
/// adversary who sees more, for whom more guesses are right by chance.
class LossLaw {
 public:
  /// \param fineness  the number of points, as a multiple of those that seem to be needed.
  LossLaw(std::span<const SampledRelease> releases, CoinSides sides, unsigned fineness = 1);

  /// The larger of the two directions. \param epsilon  >= 0.
  double delta(double epsilon) const;
  /// \returns the smallest epsilon >= 0 with this delta, up to 1e-7 of it.
  double epsilon(double delta) const;
  GuessCurve curve() const;

 private:
  double width_ = 1.0;  // between two losses
  std::ptrdiff_t half_ = 1;
  std::vector<double> p_, q_;           // of losses (i - half) width
  double p_only_ = 0.0, q_only_ = 0.0;  // of losses that are infinite
  double slack_ = 0.0;                  // what p_ and q_ may be off by in all
};

/// Releases with all of their noise divided by a factor: the larger the factor, the more they give
/// away. (Less noise is more information: noise can be added to make up for it.) Keeps its results
/// for later calls; not for several threads at a time.
class SampledFamily {
 public:
  static constexpr double kFactorStep = 0x1p-10;

  /// \param releases  not empty.
  SampledFamily(std::vector<SampledRelease> releases, CoinSides sides);

  const GuessCurve& at(double factor) const;
  /// \param step  a power of two of at most 1.
  /// \returns the largest factor, a multiple of `step` up to 8, at which guesses as good as these
  ///   have a probability below `level`; 0: there is none.
  double one_run_factor(const Guesses& guesses, double level, double step = kFactorStep) const;
  /// The same for independent runs with one coin each, all of which are guessed.
  double repeated_factor(const Guesses& guesses, double level) const;
  /// \returns epsilon at delta, and not more. The error of the grid is of second order: that of a
  ///   grid twice as fine is a third of the two grids' difference; three times that error is taken
  ///   off.
  double epsilon(double factor, double delta) const;

 private:
  std::vector<SampledRelease> divided(double factor) const;

  std::vector<SampledRelease> releases_;
  CoinSides sides_;
  mutable std::map<double, GuessCurve> curves_;
};

}  // namespace privgrad::core
