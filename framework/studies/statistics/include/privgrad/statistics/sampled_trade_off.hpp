// Trade-off functions of Poisson-sampled Gaussian releases, for audits of sampled runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "privgrad/statistics/audit_statistics.hpp"

/// How detectable a canary is in a sampled run: trade-off functions of Poisson-sampled Gaussian
/// releases, composed numerically. Pure functions, independent of any accountant: an audit that
/// used the accountant to judge its guesses could not detect a wrong accountant.
namespace privgrad::core {

/// A number of identical releases.
struct SampledRelease {
  double probability = 1.0;       ///< The canary's probability of being drawn; in (0, 1].
  double noise_multiplier = 0.0;  ///< > 0; in units of the canary's contribution.
  std::uint64_t count = 0;
};

/// The two distributions between which a coin decides, with q the probability and z the noise
/// multiplier of a SampledRelease.
enum class CoinSides {
  there_or_not = 1,  ///< (1 - q) N(0, z^2) + q N(1, z^2), or N(0, z^2).
  opposites,         ///< (1 - q) N(0, z^2) + q N(1, z^2), or (1 - q) N(0, z^2) + q N(-1, z^2).
};

/// The guesses of an adversary who sees all releases and knows everything except one canary's coin:
/// the smallest probability of wrong guesses for a given probability of right guesses, averaged
/// over both sides of the coin.
class GuessCurve {
 public:
  /// \returns a lower bound on P[a guess is made and wrong] among all rules for which P[a guess is
  ///   made and right] is y. Convex up to rounding errors, and 0 at 0.
  double least_probability(double y) const;
  /// \returns the share of right guesses among the guesses about the clearest `share` of canaries.
  /// \param share  in (0, 1].
  double expected_accuracy(double share) const;

 private:
  friend class LossLaw;
  std::vector<double> right_, wrong_;  // cumulative sums, from the largest loss downwards
  double slack_ = 0.0;
};

/// The distributions, on a grid, of the privacy loss log(dP/dQ) of all releases together, under P
/// and under Q. P and Q are the distributions of the releases for the two sides of the coin.
///
/// A single release's mass between two grid points is moved to these two points such that the total
/// masses under P and under Q both stay the same ("connect the dots": Doroshenko, Ghazi, Kamath,
/// Kumar and Manurangsi 2022). This spreads the likelihood ratio and keeps its mean under Q, so
/// that every hockey-stick divergence grows: the pair on the grid dominates the true pair, and
/// compositions preserve this (Blackwell). Mass beyond the grid is moved to the last point and to
/// infinity in the same way. Powers are computed by Fourier transforms; the curve's slack covers
/// the mass that wraps around, by Chernoff's bound, and rounding errors. So trade-off functions err
/// towards a stronger adversary, who makes more right guesses by chance.
class LossLaw {
 public:
  /// \param fineness  the number of points, as a multiple of the estimated requirement.
  LossLaw(std::span<const SampledRelease> releases, CoinSides sides, unsigned fineness = 1);

  /// The larger delta of the two directions.
  /// \param epsilon  >= 0.
  double delta(double epsilon) const;
  /// \returns the smallest epsilon >= 0 whose delta() is at most `delta`, rounded down by at most a
  ///   relative 1e-7; infinity if it is beyond the grid.
  double epsilon(double delta) const;
  GuessCurve curve() const;

 private:
  double width_ = 1.0;  // the distance of adjacent losses
  std::ptrdiff_t half_ = 1;
  std::vector<double> p_, q_;           // masses of the losses (i - half) width
  double p_only_ = 0.0, q_only_ = 0.0;  // masses of infinite losses
  double slack_ = 0.0;                  // total error bound of p_ and q_
};

/// Releases with all of their noise divided by a factor. A larger factor reveals more, because
/// noise can always be added to releases with less noise. Caches its results; not thread-safe.
class SampledFamily {
 public:
  static constexpr double kFactorStep = 0x1p-10;

  /// \param releases  not empty.
  SampledFamily(std::vector<SampledRelease> releases, CoinSides sides);

  const GuessCurve& at(double factor) const;
  /// \param step  a power of two, at most 1.
  /// \returns the largest multiple of `step`, at most 8, for which guesses at least this good have
  ///   a probability below `level`; 0 if there is none.
  double one_run_factor(const Guesses& guesses, double level, double step = kFactorStep) const;
  /// For independent runs with one coin each, if a guess is made in every run.
  /// \returns the largest multiple of kFactorStep, at most 8, that these guesses refute with error
  ///   probability `level`; 0 if there is none.
  double repeated_factor(const Guesses& guesses, double level) const;
  /// \returns a lower estimate of epsilon at delta. The grid's error is of second order: a grid
  ///   that is twice as fine has an error of a third of the two results' difference; three times
  ///   that error is subtracted.
  double epsilon(double factor, double delta) const;

 private:
  std::vector<SampledRelease> divided(double factor) const;

  std::vector<SampledRelease> releases_;
  CoinSides sides_;
  mutable std::map<double, GuessCurve> curves_;
};

}  // namespace privgrad::core
