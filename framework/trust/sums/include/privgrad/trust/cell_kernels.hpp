// The inner loops that round numbers to grid cells and add cells up, one version per CPU level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace privgrad::core {

/// The functions that round numbers to cells and add cells up, for one instruction set; they take
/// most of the time of a sum over long contributions. Every variant gives the same cells: each
/// number is converted, multiplied once and rounded towards zero, and sums are of integers.
struct CellKernels {
  std::string_view instruction_set;  ///< "plain", "avx2", "avx512".

  /// Sets cells[i] = scale * numbers[i], in double, rounded towards zero; 0 where the product is
  /// NaN or its absolute value exceeds `levels`.
  /// \param levels  at most kMostGridLevels.
  /// \param cells  [numbers.size()].
  /// \returns whether no product was NaN or too large.
  bool (*round)(std::span<const float> numbers, double scale, double levels,
                std::span<std::int32_t> cells);

  /// sum[i] += cells[i].
  /// \param sum  [cells.size()]; the result fits in 64 bits.
  void (*add)(std::span<const std::int32_t> cells, std::span<std::int64_t> sum);

  /// Returns the exact sum of the squares.
  /// \param cells  at most kBlock, each at most kMostGridLevels in absolute value.
  std::uint64_t (*squares)(std::span<const std::int32_t> cells);

  static constexpr std::size_t kBlock = 128;
};

/// The variants that instruction_set() allows, the fastest first; the last one is "plain".
std::span<const CellKernels> cell_kernels();

}  // namespace privgrad::core
