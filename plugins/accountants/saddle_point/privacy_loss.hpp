// The privacy loss of a composition through its moment generating function, for real and complex
// orders.
#pragma once

#include <complex>
#include <cstddef>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

namespace saddle_point {

using Complex = std::complex<double>;

inline constexpr double kPi = std::numbers::pi;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kUlp = std::numeric_limits<double>::epsilon();

/// The pair of distributions P and Q to compare, for one Poisson-sampled Gaussian step with
/// sampling probability q and noise sigma (z is the release along the example's direction).
enum class Pair {
  remove = 1,  ///< P = (1-q) N(0, sigma^2) + q N(1, sigma^2), Q = N(0, sigma^2).
  add,         ///< The same as remove, with P and Q exchanged.
  replace,     ///< P as in remove, Q = (1-q) N(0, sigma^2) + q N(-1, sigma^2).
};

/// A Poisson-sampled Gaussian release, and the number of times that it occurred.
struct SampledSteps {
  double q = 0.0;      ///< In (0, 1): 0 costs nothing, and 1 is not sampling.
  double sigma = 0.0;  ///< > 0, relative to the bound of one contribution.
  double count = 0.0;  ///< An integer >= 1.
};

/// K(s) = ln E_P[e^{sL}] and its first two derivatives at a real s.
struct Cumulant {
  double value = 0.0;
  double slope = 0.0;
  double curvature = 0.0;
};

/// The distribution under P of a composition's privacy loss L = ln(dP/dQ), through its moment
/// generating function.
///
/// A sampled step has L = l(z) = ln(1 - q + q e^{(2z-1)/(2 sigma^2)}) (remove), -l(z) (add) or l(z)
/// - l(-z) (replace), and its E_P[e^{sL}] is the trapezoidal rule for an integral over z: the
/// integrand is analytic around the real axis and decays like a Gaussian, so the rule converges
/// geometrically (Trefethen and Weideman 2014, Theorem 5.1); the theorem's bound determines its
/// spacing.
///
/// Threads: objects may not be shared.
class PrivacyLoss {
 public:
  /// \param gaussian_square  sum of (sensitivity / sigma)^2 of the releases without sampling.
  PrivacyLoss(Pair pair, double gaussian_square, std::vector<SampledSteps> steps);

  /// \param s  > -1.5.
  /// \throws NumericError if the tilted density is too wide to be integrated.
  Cumulant cumulant(double s);

  /// Computes ln phi(tau), phi(tau) = E_P[e^{(c + i tau) L}] / E_P[e^{cL}], at the given tau > 0,
  /// up to a multiple of 2 pi i. The last call of tilt() determines `c`.
  ///
  /// On a line that is shifted into the complex z-plane, e^{i tau L} decays wherever it would
  /// oscillate, so the number of points does not grow with tau.
  void log_characteristic(std::span<const double> taus, std::span<Complex> out) const;

  /// Computes log_characteristic() at tau = k step for k = first, first + 1, ...
  void log_characteristic(double step, std::size_t first, std::span<Complex> out) const;

  void tilt(double c);

  /// Return the sum over steps of the integral of |tilted density * L| over the line in use, and an
  /// estimate of the error of ln phi per unit of tau: rounding errors, and the part of the total
  /// weight 1 that the points on the line lack. Available after log_characteristic.
  double absolute_loss() const noexcept { return absolute_loss_; }
  double loss_error() const noexcept { return loss_error_; }

  /// Returns an upper bound on delta(0).
  double most_variation() const;

  /// Returns an upper bound on the loss; for epsilons of at least this bound, delta is 0.
  double supremum() const;

  /// Returns a tilt that is large enough for every delta representable as a double.
  double largest_tilt() const noexcept;

  /// Returns the loss around which a composition's losses concentrate without the example.
  double bulk();

 private:
  /// Points on the real z-line, and the values at these points that are needed for any s.
  struct RealLine {
    double covers = -1.0;            // valid for s up to this
    std::vector<double> loss;        // L at the points
    std::vector<double> log_weight;  // ln of the weight under P
    std::vector<double> weight;      // the weight under P
  };
  /// Points on a line parallel to the real one: weights under the tilted P, and losses.
  struct ComplexLine {
    std::vector<double> weight_re, weight_im, loss_re, loss_im;
    double absolute_loss = 0.0;
    double relative_error = 0.0;  // relative error of a sum over the points
  };
  struct Range {
    double low = 0.0, high = 0.0;
  };

  double push(double s) const;
  Range modes(const SampledSteps& step, double s) const;
  double curvature(const SampledSteps& step, double s) const;
  Range extent(const SampledSteps& step, double s) const;
  void build(const SampledSteps& step, double s, RealLine& line) const;
  Cumulant cumulant(const RealLine& line, double s) const;
  void build(const SampledSteps& step, double log_mgf, ComplexLine& line) const;
  const ComplexLine& tilted(std::size_t t, ComplexLine& spare) const;
  void add_error(const SampledSteps& step, const ComplexLine& line) const;
  Complex gaussian_part(double tau) const;

  Pair pair_;
  double gaussian_square_;
  std::vector<SampledSteps> steps_;
  std::vector<RealLine> lines_;  // one for each of steps_
  // For each step, ln of its moment generating function at the tilt.
  std::vector<double> log_mgf_;
  std::vector<ComplexLine> tilted_;  // the complex lines of the first steps
  double tilt_ = 0.0;
  mutable double absolute_loss_ = 0.0;
  mutable double loss_error_ = 0.0;
};

}  // namespace saddle_point
