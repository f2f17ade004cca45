// Computes delta and epsilon by integrating through the saddle point, with estimates of the error.
#pragma once

#include <cstddef>
#include <vector>

#include "privacy_loss.hpp"

namespace saddle_point {

/// An interval for the true value. It rests on estimates of the integral's error, see Contour.
struct Bounds {
  double lower = 0.0;
  double upper = 0.0;
  /// The estimated error of the integral itself, relative to delta; infinite if the integral
  /// failed, in which case `upper` is the smaller of Chernoff's bound and an estimated upper bound.
  double relative_error = 0.0;
};

/// Computes delta(epsilon) near one epsilon by integrating along the vertical line through the
/// saddle point c of the integrand:
///
///   delta(epsilon) = 1/(2 pi i) int_{c - i inf}^{c + i inf} e^{K(s) - epsilon s} / (s (s + 1)) ds
///
/// for c > 0; for -1 < c < 0 the same integral is delta - 1 (the residue at 0), which is used if
/// delta is near 1. K(s) = ln E_P[e^{sL}].
///
/// The error of the trapezoidal rule of step h is exactly the sum over m != 0 of
/// delta(epsilon + 2 pi m / h) e^{2 pi m c / h} (Poisson's summation formula), and
/// Chernoff's inequality bounds those terms, so h is known before the integration. If the integrand
/// does not decay soon (a few steps with small q, with nearly all of the loss in one place), the
/// rule is faded out smoothly, and Gauss-Kronrod panels continue the integral.
///
/// Proved, up to rounding: the formula, the step, and Chernoff's bound, which caps the answer.
/// Estimated: the integral beyond the last node (from the last nodes and from probes beyond them),
/// the error of the panels (from two rules of different order), and rounding (by a model). The
/// error of a Value is the sum of these estimates and of the difference from the rule with twice
/// the step. The estimates are tested, not proved, so pld's certified interval should accompany
/// them.
class Contour {
 public:
  /// \param refinement  0, 1, ...: each halves the step and extends the line.
  /// \throws NumericError if K cannot be computed where it is needed.
  Contour(PrivacyLoss& loss, double epsilon, int refinement);

  /// The integral: delta, or 1 - delta if gives_rest().
  struct Value {
    double most = 0.0;      ///< An estimated upper bound on the logarithm.
    double log = 0.0;       ///< The logarithm; NaN if the sum is below its rounding error.
    double slope = 0.0;     ///< The logarithm's derivative with respect to epsilon.
    double error = 0.0;     ///< The logarithm's estimated error; infinite without an estimate.
    double rounding = 0.0;  ///< The part of the error that is rounding.
  };
  Value at(double epsilon) const;
  bool gives_rest() const noexcept { return c_ < 0.0; }

  /// Returns b with delta(epsilon) <= e^b: Chernoff's bound (Markov's inequality for e^{cL}) at c,
  /// which equals order c + 1 of the conversion from Renyi divergences (Canonne, Kamath and Steinke
  /// 2020, Proposition 12).
  double log_chernoff(double epsilon) const;

  /// Returns the distance from the constructor's epsilon within which at() is accurate.
  double radius() const noexcept { return radius_; }

  /// Whether the integrand did not decay within the permitted work, so that refining is useless.
  bool exhausted() const noexcept { return exhausted_; }

 private:
  struct Node {
    double tau = 0.0;
    double weight = 0.0;
    double coarse = 0.0;  // the weight in the coarser rule, for the error estimate
    Complex log_phi;
  };
  struct Sum {
    double fine = 0.0, coarse = 0.0, slope = 0.0;  // sums of the real part
    // Sums of the modulus, and of the modulus times tau.
    double size = 0.0, moment = 0.0;
    double pole = 0.0;  // the sum of 1 / |s (s + 1)|
  };

  /// The sum over the first nodes at the constructor's epsilon, reused whenever nodes are
  /// added.
  struct Begun {
    std::size_t nodes = 0;
    double fine = 0.0, pole = 0.0;
  };

  Sum sum(double epsilon) const;
  Complex integrand(const Node& node, double epsilon) const;
  double aliasing_period(PrivacyLoss& loss, double epsilon) const;
  bool decayed(double epsilon);
  bool rises_again(PrivacyLoss& loss, double epsilon);
  double negligible(double epsilon);
  double rounding(double epsilon) const;
  void add_trapezoid(PrivacyLoss& loss, double step, std::size_t end);
  void fade_out();
  bool add_panel(PrivacyLoss& loss, double epsilon, double begin, double end, double tolerance);
  void add_panels(PrivacyLoss& loss, double epsilon, double distance, double finer);

  double c_ = 0.0;
  Cumulant at_c_;
  std::vector<Node> nodes_;
  Begun begun_;
  double tail_ = 0.0;          // estimate of the integral beyond the last node
  double panels_error_ = 0.0;  // sum over panels of the difference of two rules
  double fade_begin_ = 0.0;    // the end of the trapezoidal rule
  double fade_end_ = 0.0;      // the end of the panels
  double absolute_loss_ = 0.0;
  double loss_error_ = 0.0;
  double radius_ = 0.0;
  bool exhausted_ = false;
};

/// \param epsilon  finite, any sign.
Bounds delta_of(PrivacyLoss& loss, double epsilon);

/// \param delta  in (0, 1).
/// \returns bounds on max(0, epsilon).
Bounds epsilon_of(PrivacyLoss& loss, double delta);

}  // namespace saddle_point
