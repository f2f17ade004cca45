// Rounds contributions to whole numbers ("cells") and adds them up.
#pragma once

#include <cstddef>
#include <cstdint>

// A dense layer's contribution is a product of two short vectors of integers, q(delta) for its
// units and q(a) for its inputs, each within int16; the sum over examples is an integer matrix
// product, computed for two examples (a pair) at a time. Any other contribution is a truncated row.
namespace privgrad::cpu {

/// The number of units, or of inputs, in a tile of an operand. An operand has the layout
/// [ceil(extent / width), pairs, width] with one of these widths; each element has the int16 of the
/// pair's first example in its low half, and the int16 of the second example in its high half.
constexpr std::size_t kUnitTile = 8;
constexpr std::size_t kInputTile = 48;

/// Returns the number of elements of an operand with this many pairs.
constexpr std::size_t operand_size(std::size_t extent, std::size_t width, std::size_t pairs) {
  return (extent + width - 1) / width * width * pairs;
}

/// The rounding of one example's floats to integers: rint or trunc of (x * shift) * factor.
struct Rounding {
  float shift = 0.0f;   ///< A power of two that exactly scales the largest x to near 1.
  float factor = 0.0f;  ///< 0: every result is 0.
  float middle = 0.0f;  ///< 1.5 * 2^23: adding and subtracting it rounds to nearest; 0 truncates.
};

/// Returns a rounding to factor * x.
/// \param factor  >= 0; factor * largest is at most 2^14, or 2^28 if `truncates`, up to rounding in
///   double.
/// \param largest  the largest absolute x, finite.
Rounding make_rounding(double factor, float largest, bool truncates);

/// Returns the result of `rounding` for x.
std::int32_t round_one(float x, const Rounding& rounding);

/// The squared lengths of two examples' integers.
struct PairSquares {
  std::uint64_t first = 0, second = 0;
};

/// Round two examples' floats into an operand, padded with zeros.
/// \param first, second  [extent], finite.
/// \param operand  out: the pair's place in the first tile; tiles are `step` elements apart.
PairSquares round_pair_units(const float* first, const float* second, const Rounding& one,
                             const Rounding& other, std::size_t extent, std::uint32_t* operand,
                             std::size_t step);
PairSquares round_pair_inputs(const float* first, const float* second, const Rounding& one,
                              const Rounding& other, std::size_t extent, std::uint32_t* operand,
                              std::size_t step);

/// Fills operand[i] with the rounded values[i] in its low half, and the rounded values[i + next],
/// or 0 beyond the last value, in its high half.
/// \param operand  out: [count].
void pair_with_next(const float* values, std::size_t count, std::size_t next,
                    const Rounding& rounding, std::uint32_t* operand);

/// sums[u, k] = sum over the pairs' examples of units[u] inputs[k], in int32: the caller ensures
/// that no sum overflows.
/// \param rows, columns  the numbers of units, at most kUnitTile, and inputs, at most kInputTile.
/// \param units, inputs  one tile each, beginning at the first of `pairs` pairs.
/// \param sums  out: [kUnitTile, kInputTile], of which [rows, columns] are valid; rows begin
///   `stride` numbers apart.
void multiply_pairs(std::size_t rows, std::size_t columns, std::size_t pairs,
                    const std::uint32_t* units, const std::uint32_t* inputs, std::int32_t* sums,
                    std::size_t stride);

/// sum += values, modulo 2^64.
void add_whole(const std::int32_t* values, std::size_t count, std::int64_t* sum);

/// Adds the rows of a tile to a sum whose rows begin `stride` numbers apart.
/// \param values  [rows, kInputTile], of which [rows, columns] are added.
void add_tile(std::size_t rows, std::size_t columns, const std::int32_t* values, std::int64_t* sum,
              std::size_t stride);

/// Prefetches the part of the sum to which add_tile() adds.
void fetch_tile(std::size_t rows, std::size_t columns, const std::int64_t* sum, std::size_t stride);

/// sum += trunc(scale * values), modulo 2^64; each product is rounded to double.
/// \param values  finite; the products are below 2^31 in absolute value.
void add_truncated(double scale, const float* values, std::size_t count, std::int64_t* sum);

/// Returns the squared length of the numbers that add_truncated() adds, modulo 2^64.
std::uint64_t truncated_squares(double scale, const float* values, std::size_t count);

/// Returns the largest absolute value. No value may be -2^31.
std::int32_t largest_whole(const std::int32_t* values, std::size_t count);

/// shrunk = rint(factor * values).
/// \param factor  such that all results are within int16.
/// \returns the sum of the squares of the results.
std::uint64_t shrink_whole(float factor, const std::int32_t* values, std::size_t count,
                           std::int16_t* shrunk);

/// sum += the rounded values: the caller ensures that no sum overflows int32.
void add_rounded(const Rounding& rounding, const float* values, std::size_t count,
                 std::int32_t* sum);

/// Returns the squared length of the numbers that add_rounded() adds, modulo 2^64.
std::uint64_t rounded_squares(const Rounding& rounding, const float* values, std::size_t count);

/// sum += trunc(factor * values); each product is rounded to float32. The caller ensures that no
/// sum overflows int32.
void add_truncated(float factor, const std::int16_t* values, std::size_t count, std::int32_t* sum);

/// Returns the squared length of the numbers that add_truncated() adds, modulo 2^64.
std::uint64_t truncated_squares(float factor, const std::int16_t* values, std::size_t count);

}  // namespace privgrad::cpu
