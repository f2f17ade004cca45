// Composes steps by Fourier transforms, with upper and lower bounds on epsilon and delta.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "scout.hpp"
#include "spectrum.hpp"

namespace pld {

/// Settings of a composition. They affect the tightness of the bounds, never their validity.
struct Layout {
  double step = 0.0;     ///< The grid's step, see Grid.
  double low = 0.0;      ///< Approximately the loss at the window's first point.
  std::size_t size = 0;  ///< Points of the window.
  double tilt = 0.0, high_order = 0.0, far_order = 0.0, low_order = 0.0;
  double cut = 0.0;  ///< The delta that may be lost by treating large losses as infinite.
  /// The most values, per step and point of the window, to compute for finding the relevant
  /// frequencies one by one (each value takes some 5 ns); if more are needed, the window is
  /// transformed as a whole, in some 300 ns per point.
  double work_for_point = 16.0;
  /// Whether the window may be larger than transforms allow, because it is never stored. There is
  /// then no curve unless all relevant frequencies can be computed one by one.
  bool without_transforms = false;
};

/// Bounds on the curve epsilon -> delta of a composition, at the points of a window and, because
/// delta is convex in e^epsilon, between them.
class Curve {
 public:
  /// Return bounds in [0, 1] on delta for a given epsilon.
  double upper_delta(double given) const;
  double lower_delta(double given) const;

  /// Whether the curve was computed from few frequencies, without a transform of the window.
  bool is_spectral() const { return upper_.spectrum.has_value(); }

  /// Return bounds on the smallest epsilon >= 0 whose delta is at most `delta`. The upper bound is
  /// +infinity if no such epsilon is proved.
  double upper_epsilon(double delta) const;
  double lower_epsilon(double delta) const;

 private:
  friend std::optional<Curve> compose(const std::vector<Step>& steps, const Scout& scout,
                                      const Layout& layout);

  struct Bound {
    // The sums over j > k of mass_j kernel(S_j - S_k); or, if this is empty, a spectrum from which
    // they are computed.
    std::vector<double> tail;
    std::optional<Spectrum> spectrum;
    double log_scale = 0.0;  // ln of the moment generating function at the tilt
    double absolute = 0.0;   // added (upper) or subtracted (lower) before scaling
    double far_log = 0.0;    // lower: ln of a bound, at S = 0, on mass wrapped from above
    double far_order = 0.0;
    double outside = 0.0;      // added (upper) or subtracted (lower) after scaling
    double at_infinity = 0.0;  // upper: the part of `outside` that is at infinity
    double relative = 0.0;     // relative rounding error of the tail
  };

  double rounding(double epsilon) const;
  double with_offset(double counted, double direction) const;
  double renyi_delta(double counted) const;
  double point(std::size_t k) const;
  Approximation tail_at(const Bound& bound, std::size_t k) const;
  std::size_t first_within(double delta) const;
  double upper_at(std::size_t k) const;
  double lower_at(std::size_t k) const;

  Layout layout_;
  std::int64_t first_ = 0;  // index of the window's first point
  double offset_ = 0.0;     // loss at index 0
  double offset_error_ = 0.0;
  Bound upper_, lower_;
};

/// Composes all steps at once: discretises each step, changes the measure from dP to
/// e^(tilt * loss) dP / M (Esscher), multiplies the Fourier transforms and transforms back.
///
/// The answer is then M e^(-tilt epsilon) times a sum of masses around the middle of the window, so
/// the rounding errors of the transform are relative to the answer, even for tiny deltas. In
/// addition to the discretisation (see discretise), the bounds include:
/// - the error of the transforms at each frequency, with twiddle factors computed from rounded
///   angles; times n for n equal steps, because |a^n - b^n| <= n |a - b| max(|a|, |b|)^(n-1);
///   propagated back in the 2-norm, and to delta by the Cauchy-Schwarz inequality;
/// - masses outside the window, which the transform wraps to its other end: Chernoff bounds on the
///   masses above are added to the upper bound, and Chernoff bounds on masses that wrapped in from
///   either side are subtracted from the lower bound;
/// - where the window gives no answer, the bound that the moment generating function proves
///   (Canonne, Kamath and Steinke 2020, Proposition 12);
/// - the rounding errors of masses, sums and moments, as relative errors to the power of n.
///
/// \returns nothing if transforms are needed but `layout` forbids them.
/// \throws NumericError if an intermediate number is unusable.
std::optional<Curve> compose(const std::vector<Step>& steps, const Scout& scout,
                             const Layout& layout);

/// Returns the smallest size >= least for which transforms are fast.
std::size_t fast_size(double least);

}  // namespace pld
