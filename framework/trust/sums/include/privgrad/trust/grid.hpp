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

/// Most cells of a grid per L2 bound. A batch names each of at most 2^32 rows once, so that no sum
/// is beyond 2^60.
inline constexpr std::uint64_t kMostGridLevels = std::uint64_t{1} << 28;

/// The contribution of one example on the grid: factor_g gradient_g / clip_norm * levels, each
/// coordinate rounded towards zero.
///
/// Bound: the squares of the cells are added up as integers, exactly, and a contribution whose sum
/// exceeds levels^2 becomes the zero vector, as one with a coordinate that is not finite does. So
/// ||cells|| <= levels holds for every input, whatever the floating-point operations before it did,
/// and the sensitivity of a sum of contributions is exactly `levels` cells, or 2 levels where one
/// may be exchanged for another. The proof needs nothing else, but that an example's factors follow
/// from its own gradient.
///
/// No valid contribution is lost this way: rounding towards zero makes no coordinate longer, so a
/// vector that is no longer than the bound stays within it; and the squared norms that
/// clip_factors() works with are enlarged by more than what the three roundings here can add
/// (squared_norm_at_most()).
///
/// Rounding to the nearest cell instead could lengthen a vector of d coordinates by sqrt(d)/2
/// cells, which the sensitivity would have to carry; towards zero it costs nothing, and shortens a
/// vector by less than sqrt(d) cells: 6e-5 of the clip norm for a million parameters and 2^24
/// levels.
///
/// \param factors  [groups.size()].
/// \param cells    out: [row.size()], each of at most `levels` in size.
void round_to_grid(std::span<const float> row, std::span<const ParameterGroup> groups,
                   std::span<const double> factors, double clip_norm, std::uint64_t levels,
                   std::span<std::int32_t> cells);

/// Whether the squares of the cells add up to at most `squared_length`: in integers, exactly.
/// \param cells  each of at most kMostGridLevels in size.
/// \param squared_length  at most kMostGridLevels^2.
bool no_longer_than(std::span<const std::int32_t> cells, std::uint64_t squared_length);

/// Subtracts the squares of the cells from the rest of a squared length: no_longer_than() for a
/// vector that comes in pieces.
/// \param left  at most kMostGridLevels^2; meaningless afterwards if the squares are more.
/// \returns whether the squares are at most `left`.
bool take_squares(std::span<const std::int32_t> cells, std::uint64_t& left);

class DeferredCells;

/// A sum over privacy units, in cells of a grid, in which no unit's contribution is longer than
/// levels() cells. Private, as Bounded is, and made and read by the same door. Some contributions may
/// be added up only as the sum is released (deferred_exact_sum()).
class BoundedOnGrid {
 public:
  BoundedOnGrid(BoundedOnGrid&&) noexcept;
  BoundedOnGrid& operator=(BoundedOnGrid&&) noexcept;
  BoundedOnGrid(const BoundedOnGrid&) = delete;
  BoundedOnGrid& operator=(const BoundedOnGrid&) = delete;
  ~BoundedOnGrid();

  std::uint64_t levels() const noexcept { return levels_; }
  double l2_bound() const noexcept {
    return l2_bound_;
  }  ///< Bound of a contribution, in real units.
  double cell_width() const noexcept { return cell_width_; }
  PrivacyUnit unit() const noexcept { return unit_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t rows() const noexcept { return rows_; }  ///< Contributions that it is the sum of.

 private:
  friend class privgrad::TrustBase;
  BoundedOnGrid(std::vector<std::int64_t> cells, std::unique_ptr<DeferredCells> deferred,
                std::size_t size, std::uint64_t levels, double l2_bound, double cell_width,
                std::size_t rows, PrivacyUnit unit);

  std::vector<std::int64_t> cells_;  // [size_], or none: zeros
  std::unique_ptr<DeferredCells> deferred_;
  std::size_t size_;
  std::uint64_t levels_;
  double l2_bound_, cell_width_;
  std::size_t rows_;
  PrivacyUnit unit_;
};

}  // namespace privgrad::core
