// Contributions rounded to a grid, and their sums, which are private.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "privgrad/clipping.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// The most cells of a grid per L2 bound. A batch has at most 2^32 distinct rows, so no sum exceeds
/// 2^60.
inline constexpr std::uint64_t kMostGridLevels = std::uint64_t{1} << 28;

/// Computes the contribution of one example on the grid: factor_g gradient_g / clip_norm * levels,
/// each coordinate rounded towards zero.
///
/// Bound: the squares of the cells are added up exactly, as integers, and a contribution whose sum
/// exceeds levels^2, or that has a coordinate that is not finite, becomes the zero vector. So
/// ||cells|| <= levels holds for every input, whatever the preceding floating-point operations did,
/// and the sensitivity of a sum of contributions is exactly `levels` cells, or 2 levels if one
/// contribution may be exchanged for another. The proof's only other premise is that an example's
/// factors follow from its own gradient.
///
/// No valid contribution is lost this way: rounding towards zero makes no coordinate larger, so a
/// vector within the bound stays within it; and clip_factors() works with squared norms that are
/// enlarged by more than the three roundings here can add (squared_norm_at_most()).
///
/// Rounding to the nearest cell instead could lengthen a vector of d coordinates by sqrt(d)/2
/// cells, which would add to the sensitivity. Rounding towards zero adds nothing, and shortens a
/// vector by less than sqrt(d) cells: 6e-5 of the clip norm for a million parameters and 2^24
/// levels.
/// \param factors  [groups.size()].
/// \param cells  out: [row.size()], each at most `levels` in absolute value.
void round_to_grid(std::span<const float> row, std::span<const ParameterGroup> groups,
                   std::span<const double> factors, double clip_norm, std::uint64_t levels,
                   std::span<std::int32_t> cells);

/// Whether the squares of the cells add up to at most `squared_length`, exactly, in integers.
/// \param cells  each at most kMostGridLevels in absolute value.
/// \param squared_length  at most kMostGridLevels^2.
bool no_longer_than(std::span<const std::int32_t> cells, std::uint64_t squared_length);

/// Subtracts the squares of the cells from the remaining squared length: no_longer_than() for a
/// vector that comes in pieces.
/// \param left  at most kMostGridLevels^2; meaningless afterwards if the squares exceed it.
/// \returns whether the squares are at most `left`.
bool take_squares(std::span<const std::int32_t> cells, std::uint64_t& left);

class DeferredCells;

/// A sum over privacy units, in cells of a grid, in which no unit's contribution is longer than
/// levels() cells. It is private, as Bounded is, and only TrustBase makes and reads it. Some
/// contributions may be added up only when the sum is released (deferred_exact_sum()).
class BoundedOnGrid {
 public:
  BoundedOnGrid(BoundedOnGrid&&) noexcept;
  BoundedOnGrid& operator=(BoundedOnGrid&&) noexcept;
  BoundedOnGrid(const BoundedOnGrid&) = delete;
  BoundedOnGrid& operator=(const BoundedOnGrid&) = delete;
  ~BoundedOnGrid();

  std::uint64_t levels() const noexcept { return levels_; }
  /// Returns the bound of a contribution, in real units.
  double l2_bound() const noexcept { return l2_bound_; }
  double cell_width() const noexcept { return cell_width_; }
  PrivacyUnit unit() const noexcept { return unit_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t rows() const noexcept { return rows_; }  ///< The number of contributions in the sum.

 private:
  friend class privgrad::TrustBase;
  BoundedOnGrid(std::vector<std::int64_t> cells, std::unique_ptr<DeferredCells> deferred,
                std::size_t size, std::uint64_t levels, double l2_bound, double cell_width,
                std::size_t rows, PrivacyUnit unit);

  std::vector<std::int64_t> cells_;  // [size_], or empty if all are zero
  std::unique_ptr<DeferredCells> deferred_;
  std::size_t size_;
  std::uint64_t levels_;
  double l2_bound_, cell_width_;
  std::size_t rows_;
  PrivacyUnit unit_;
};

}  // namespace privgrad::core
