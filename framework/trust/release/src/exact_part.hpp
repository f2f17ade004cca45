// One part of a run with correlated noise, computed exactly in integers or fixed point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "privgrad/executor.hpp"
#include "privgrad/trust/correlated_recipes.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/slice.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// One part of a run whose releases share data or noise, computed step by step in integers.
///
/// Let q_t be as in CorrelatedRecipes: release t minus the releases that it continues. Its data are
/// D_t = s_t - sum_i c_i s_i, c_i = share_i K(step_i, t), and its noise is one Gaussian Z_t of the
/// step's own nodes. The accounted mechanism is the continuous one, which releases all D_t + Z_t.
/// The actual releases are a function of these numbers:
///
///     y_t = round((D_t + Z_t) / 2^h),    R_t = sum_i c_i R_i + y_t,    released_t = scale_t R_t,
///
/// so it is post-processing of that mechanism, provided that D_t is what the recipe says.
///
/// Whole recipes, where every keep is 0 or 1 and every share a whole number: D_t is a whole number
/// of cells, and is added up as one, modulo 2^64. With z_i = R_i 2^h - s_i, R_t 2^h is then
/// s_t + sum_i c_i z_i + Z_t, rounded to 2^h, so one vector is kept for each continued step.
///
/// Other recipes: s_t and D_t are carried in fixed point with F bits for a cell's fraction: in 64
/// bits if the largest sum of batches of most_rows examples leaves enough bits for it, so that no
/// data can cause an overflow; otherwise in 128 bits, with F up to 32 and room for 2^32 examples.
/// Each multiplication by a constant c (fixed_point.hpp) rounds the product down, by less than a
/// unit of 2^-F, and c itself to 60 fractional bits. Let T be the number of steps, d the number of
/// coordinates, and A = min(T, 1 / (1 - keep)). For neighbours that differ by one unit's
/// contributions, rounding adds to the difference of s_t a vector of length at most
/// A (sqrt(d) + A), in units of 2^-F (each step adds sqrt(d) for d roundings and, for the constant,
/// 2^-60 of a difference that is below 2^59 A; earlier errors shrink by keep; if keep is 0 or 1,
/// there are none), and to the difference of D_t at most
///
///     E = (A (1 + sum_i |c_i|) + number of c_i) (sqrt(d) + A) + 2^(F - 26) A^2 sum_i |share_i|.
///
/// The last term is for the c_i themselves, products of up to n doubles of which each rounds by
/// 2^-53: n K(n) is at most A, and a difference of s_i at most 2^(F + 27) A units.
///
/// Over T steps this is at most sqrt(T) E / sigma_min in units of the noise, and by the triangle
/// inequality the mechanism's sensitivity grows by at most that. relative_error() returns this
/// growth in units of the noise; the mechanism enlarges all noise by a factor that compensates for
/// it, so the charged guarantee holds exactly.
class ExactPart {
 public:
  virtual ~ExactPart();
  ExactPart(const ExactPart&) = delete;
  ExactPart& operator=(const ExactPart&) = delete;

  struct Size {
    std::size_t coordinates = 0;
    std::uint64_t most_rows = 0;  ///< The most examples in a step, a public number.
  };

  /// \param noise_factor  at least 1: the factor that enlarges all noise.
  /// \param slice  the coordinates of this object. Each coordinate is released independently, so
  ///   the object releases the same values for this slice as an object for all coordinates.
  static std::unique_ptr<ExactPart> make(const CorrelatedRecipes& recipes, const Size& size,
                                         RandomKey key, double noise_factor, const Slice& slice);

  /// Returns a bound on the effect that rounding has on all releases of a part, in units of the
  /// noise; 0 for whole recipes.
  static double relative_error(const CorrelatedRecipes& recipes, const Size& size);

  /// Releases a step; steps come in order.
  /// \param cells  x_t, in cells of kExactLevels per unit: [size of the slice].
  /// \param released  out: R_t scale_t times `width`, as floats: [size of the slice].
  /// \param width  the width of a cell of x_t, divided by the divisor.
  /// \throws PrivacyError if the step continues one that this object has not released.
  virtual void release(std::uint64_t step, std::span<const std::int64_t> cells, double width,
                       std::span<float> released, Executor& executor) = 0;

  virtual std::size_t memory_bytes() const = 0;

  /// Draws the noise of later steps with this key.
  virtual void use_key(const RandomKey& key) = 0;

  /// Saves the running sums and the values that later steps continue.
  virtual void save(StateWriter& out) const = 0;
  /// \throws IoError for an invalid state.
  virtual void restore(StateReader& in) = 0;

 protected:
  ExactPart() = default;
};

}  // namespace privgrad::core
