#include "cells.hpp"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "instruction_loops.hpp"

namespace privgrad::cpu {

// --- Rounding.

Rounding make_rounding(double factor, float largest, bool truncates) {
  if (!(largest > 0.0f) || !(factor > 0.0)) return {};
  constexpr float kToNearest = 0x1.8p23f;
  const int exponent = std::clamp(-std::ilogb(largest), -126, 127);
  return {std::ldexp(1.0f, exponent), static_cast<float>(std::ldexp(factor, -exponent)),
          truncates ? 0.0f : kToNearest};
}

namespace {

PRIVGRAD_INLINE std::int32_t rounded(float x, const Rounding& rounding) {
  const float product = (x * rounding.shift) * rounding.factor;
  return static_cast<std::int32_t>((product + rounding.middle) - rounding.middle);
}

/// Rounds one tile. Numbers are at most 2^14 in size, so a lane's sum of six squares fits in 32
/// bits.
template <std::size_t kWidth, std::size_t kLanes>
PRIVGRAD_INLINE void round_tile(const float* first, const float* second, const Rounding& one,
                                const Rounding& other, std::uint32_t* operand,
                                std::uint64_t (&squares)[2][kLanes]) {
  std::uint32_t partial[2][kLanes] = {};
  for (std::size_t begin = 0; begin < kWidth; begin += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const std::int32_t a = rounded(first[begin + j], one);
      const std::int32_t b = rounded(second[begin + j], other);
      operand[begin + j] =
          (static_cast<std::uint32_t>(a) & 0xffffu) | (static_cast<std::uint32_t>(b) << 16);
      partial[0][j] += static_cast<std::uint32_t>(a * a);
      partial[1][j] += static_cast<std::uint32_t>(b * b);
    }
  }
  for (std::size_t j = 0; j < kLanes; ++j) {
    squares[0][j] += partial[0][j];
    squares[1][j] += partial[1][j];
  }
}

template <std::size_t kWidth>
PRIVGRAD_INLINE PairSquares round_pair(const float* first, const float* second, const Rounding& one,
                                       const Rounding& other, std::size_t extent,
                                       std::uint32_t* operand, std::size_t step) {
  constexpr std::size_t kLanes = 8;
  std::uint64_t squares[2][kLanes] = {};
  std::size_t at = 0;
  for (; at + kWidth <= extent; at += kWidth, operand += step) {
    round_tile<kWidth, kLanes>(first + at, second + at, one, other, operand, squares);
  }
  if (at < extent) {
    float rest[2][kWidth] = {};
    std::memcpy(rest[0], first + at, (extent - at) * sizeof(float));
    std::memcpy(rest[1], second + at, (extent - at) * sizeof(float));
    round_tile<kWidth, kLanes>(rest[0], rest[1], one, other, operand, squares);
  }
  PairSquares sum;
  for (std::size_t j = 0; j < kLanes; ++j) {
    sum.first += squares[0][j];
    sum.second += squares[1][j];
  }
  return sum;
}

PRIVGRAD_INLINE PairSquares round_pair_units_body(const float* first, const float* second,
                                                  const Rounding& one, const Rounding& other,
                                                  std::size_t extent, std::uint32_t* operand,
                                                  std::size_t step) {
  return round_pair<kUnitTile>(first, second, one, other, extent, operand, step);
}

PRIVGRAD_INLINE PairSquares round_pair_inputs_body(const float* first, const float* second,
                                                   const Rounding& one, const Rounding& other,
                                                   std::size_t extent, std::uint32_t* operand,
                                                   std::size_t step) {
  return round_pair<kInputTile>(first, second, one, other, extent, operand, step);
}

PRIVGRAD_INLINE void pair_with_next_body(const float* values, std::size_t count, std::size_t next,
                                         const Rounding& given, std::uint32_t* operand) {
  const Rounding rounding = given;
  const std::size_t whole = count > next ? count - next : 0;
  for (std::size_t i = 0; i < whole; ++i) {
    operand[i] = (static_cast<std::uint32_t>(rounded(values[i], rounding)) & 0xffffu) |
                 (static_cast<std::uint32_t>(rounded(values[i + next], rounding)) << 16);
  }
  for (std::size_t i = whole; i < count; ++i) {
    operand[i] = static_cast<std::uint32_t>(rounded(values[i], rounding)) & 0xffffu;
  }
}

PRIVGRAD_INLINE std::int32_t largest_whole_body(const std::int32_t* values, std::size_t count) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t size = values[i] < 0 ? -values[i] : values[i];
    largest = size > largest ? size : largest;
  }
  return largest;
}

PRIVGRAD_INLINE std::uint64_t shrink_whole_body(float factor, const std::int32_t* values,
                                                std::size_t count, std::int16_t* shrunk) {
  constexpr float kToNearest = 0x1.8p23f;
  std::uint64_t squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float product = factor * static_cast<float>(values[i]);
    const auto small = static_cast<std::int32_t>((product + kToNearest) - kToNearest);
    shrunk[i] = static_cast<std::int16_t>(small);
    squares += static_cast<std::uint32_t>(small * small);
  }
  return squares;
}

PRIVGRAD_INLINE void add_truncated_short_body(float factor, const std::int16_t* values,
                                              std::size_t count, std::int32_t* sum) {
  for (std::size_t i = 0; i < count; ++i) {
    sum[i] += static_cast<std::int32_t>(factor * static_cast<float>(values[i]));
  }
}

PRIVGRAD_INLINE std::uint64_t truncated_squares_short_body(float factor, const std::int16_t* values,
                                                           std::size_t count) {
  std::uint64_t squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto cell = static_cast<std::int32_t>(factor * static_cast<float>(values[i]));
    squares += static_cast<std::uint64_t>(std::int64_t{cell} * cell);
  }
  return squares;
}

PRIVGRAD_INLINE void add_whole_body(const std::int32_t* values, std::size_t count,
                                    std::int64_t* sum) {
  for (std::size_t i = 0; i < count; ++i) {
    sum[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum[i]) +
                                       static_cast<std::uint64_t>(std::int64_t{values[i]}));
  }
}

PRIVGRAD_INLINE void add_tile_body(std::size_t rows, std::size_t columns,
                                   const std::int32_t* values, std::int64_t* sum,
                                   std::size_t stride) {
  for (std::size_t row = 0; row < rows; ++row) {
    add_whole_body(values + row * kInputTile, columns, sum + row * stride);
  }
}

PRIVGRAD_INLINE void add_rounded_body(const Rounding& given, const float* values, std::size_t count,
                                      std::int32_t* sum) {
  const Rounding rounding = given;
  for (std::size_t i = 0; i < count; ++i) sum[i] += rounded(values[i], rounding);
}

PRIVGRAD_INLINE std::uint64_t rounded_squares_body(const Rounding& given, const float* values,
                                                   std::size_t count) {
  const Rounding rounding = given;
  std::uint64_t squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t cell = rounded(values[i], rounding);
    squares += static_cast<std::uint64_t>(std::int64_t{cell} * cell);
  }
  return squares;
}

PRIVGRAD_INLINE std::int32_t truncated(double scale, float value) {
  return static_cast<std::int32_t>(scale * static_cast<double>(value));
}

PRIVGRAD_INLINE void add_truncated_body(double scale, const float* values, std::size_t count,
                                        std::int64_t* sum) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t cell = truncated(scale, values[i]);
    sum[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum[i]) +
                                       static_cast<std::uint64_t>(cell));
  }
}

PRIVGRAD_INLINE std::uint64_t truncated_squares_body(double scale, const float* values,
                                                     std::size_t count) {
  std::uint64_t squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t cell = truncated(scale, values[i]);
    squares += static_cast<std::uint64_t>(std::int64_t{cell} * cell);
  }
  return squares;
}

}  // namespace

std::int32_t round_one(float x, const Rounding& rounding) { return rounded(x, rounding); }

PRIVGRAD_LOOP(PairSquares, round_pair_units,
              (const float* first, const float* second, const Rounding& one, const Rounding& other,
               std::size_t extent, std::uint32_t* operand, std::size_t step),
              (first, second, one, other, extent, operand, step))
PRIVGRAD_LOOP(PairSquares, round_pair_inputs,
              (const float* first, const float* second, const Rounding& one, const Rounding& other,
               std::size_t extent, std::uint32_t* operand, std::size_t step),
              (first, second, one, other, extent, operand, step))
PRIVGRAD_LOOP(void, add_whole, (const std::int32_t* values, std::size_t count, std::int64_t* sum),
              (values, count, sum))
PRIVGRAD_LOOP(void, add_tile,
              (std::size_t rows, std::size_t columns, const std::int32_t* values, std::int64_t* sum,
               std::size_t stride),
              (rows, columns, values, sum, stride))
PRIVGRAD_LOOP(void, add_rounded,
              (const Rounding& rounding, const float* values, std::size_t count, std::int32_t* sum),
              (rounding, values, count, sum))
PRIVGRAD_LOOP(std::uint64_t, rounded_squares,
              (const Rounding& rounding, const float* values, std::size_t count),
              (rounding, values, count))
PRIVGRAD_LOOP(void, add_truncated,
              (double scale, const float* values, std::size_t count, std::int64_t* sum),
              (scale, values, count, sum))
PRIVGRAD_LOOP(std::uint64_t, truncated_squares,
              (double scale, const float* values, std::size_t count), (scale, values, count))

PRIVGRAD_LOOP(void, pair_with_next,
              (const float* values, std::size_t count, std::size_t next, const Rounding& rounding,
               std::uint32_t* operand),
              (values, count, next, rounding, operand))
PRIVGRAD_LOOP(std::int32_t, largest_whole, (const std::int32_t* values, std::size_t count),
              (values, count))
PRIVGRAD_LOOP(std::uint64_t, shrink_whole,
              (float factor, const std::int32_t* values, std::size_t count, std::int16_t* shrunk),
              (factor, values, count, shrunk))

void fetch_tile(std::size_t rows, std::size_t columns, const std::int64_t* sum,
                std::size_t stride) {
  constexpr std::size_t kLine = 64 / sizeof(std::int64_t);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < columns; i += kLine) __builtin_prefetch(sum + row * stride + i, 1);
  }
}

namespace {
PRIVGRAD_LOOP(void, add_truncated_short,
              (float factor, const std::int16_t* values, std::size_t count, std::int32_t* sum),
              (factor, values, count, sum))
PRIVGRAD_LOOP(std::uint64_t, truncated_squares_short,
              (float factor, const std::int16_t* values, std::size_t count),
              (factor, values, count))
}  // namespace

void add_truncated(float factor, const std::int16_t* values, std::size_t count, std::int32_t* sum) {
  add_truncated_short(factor, values, count, sum);
}

std::uint64_t truncated_squares(float factor, const std::int16_t* values, std::size_t count) {
  return truncated_squares_short(factor, values, count);
}

// --- Products.

namespace {

namespace plain {

#define PRIVGRAD_TARGET
using Vector = std::int32_t;
constexpr std::size_t kLanes = 1, kRows = 2, kVectors = 4;
inline Vector load(const std::uint32_t* from) { return static_cast<Vector>(*from); }
inline void store(std::int32_t* to, Vector value) { *to = value; }
inline Vector broadcast(const std::uint32_t* from) { return static_cast<Vector>(*from); }
inline Vector zero() { return 0; }
inline Vector dot(Vector sum, Vector a, Vector b) {
  return sum + static_cast<std::int16_t>(a & 0xffff) * static_cast<std::int16_t>(b & 0xffff) +
         (a >> 16) * (b >> 16);
}
#include "pair_tile.inl"
#undef PRIVGRAD_TARGET

}  // namespace plain

#ifdef __x86_64__

namespace avx2 {

#define PRIVGRAD_TARGET [[gnu::target("avx2")]]
using Vector = __m256i;
constexpr std::size_t kLanes = 8, kRows = 4, kVectors = 3;
PRIVGRAD_TARGET inline Vector load(const std::uint32_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
PRIVGRAD_TARGET inline void store(std::int32_t* to, Vector value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value);
}
PRIVGRAD_TARGET inline Vector broadcast(const std::uint32_t* from) {
  return _mm256_set1_epi32(static_cast<int>(*from));
}
PRIVGRAD_TARGET inline Vector zero() { return _mm256_setzero_si256(); }
PRIVGRAD_TARGET inline Vector dot(Vector sum, Vector a, Vector b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
#include "pair_tile.inl"
#undef PRIVGRAD_TARGET

}  // namespace avx2

namespace avx512 {

#define PRIVGRAD_TARGET [[gnu::target("avx512f,avx512bw")]]
using Vector = __m512i;
constexpr std::size_t kLanes = 16, kRows = 8, kVectors = 3;
PRIVGRAD_TARGET inline Vector load(const std::uint32_t* from) { return _mm512_loadu_si512(from); }
PRIVGRAD_TARGET inline void store(std::int32_t* to, Vector value) {
  _mm512_storeu_si512(to, value);
}
PRIVGRAD_TARGET inline Vector broadcast(const std::uint32_t* from) {
  return _mm512_set1_epi32(static_cast<int>(*from));
}
PRIVGRAD_TARGET inline Vector zero() { return _mm512_setzero_si512(); }
PRIVGRAD_TARGET inline Vector dot(Vector sum, Vector a, Vector b) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
}
#include "pair_tile.inl"
#undef PRIVGRAD_TARGET

}  // namespace avx512

namespace vnni {

#define PRIVGRAD_TARGET [[gnu::target("avx512f,avx512bw,avx512vnni")]]
using avx512::broadcast, avx512::load, avx512::store, avx512::Vector, avx512::zero;
using avx512::kLanes, avx512::kRows, avx512::kVectors;
/// The intrinsic is not used, because with it g++ 12 copies every sum to another register and back.
PRIVGRAD_TARGET inline Vector dot(Vector sum, Vector a, Vector b) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}
#include "pair_tile.inl"
#undef PRIVGRAD_TARGET

}  // namespace vnni

#endif

using PairProduct = void (*)(std::size_t, std::size_t, std::size_t, const std::uint32_t*,
                             const std::uint32_t*, std::int32_t*, std::size_t);

PairProduct choose_product() {
#ifdef __x86_64__
  const InstructionSet level = instruction_set();
  if (level == InstructionSet::avx512 && __builtin_cpu_supports("avx512bw")) {
    return __builtin_cpu_supports("avx512vnni") ? vnni::multiply : avx512::multiply;
  }
  if (level >= InstructionSet::avx2) return avx2::multiply;
#endif
  return plain::multiply;
}

}  // namespace

void multiply_pairs(std::size_t rows, std::size_t columns, std::size_t pairs,
                    const std::uint32_t* units, const std::uint32_t* inputs, std::int32_t* sums,
                    std::size_t stride) {
  static const PairProduct product = choose_product();
  product(rows, columns, pairs, units, inputs, sums, stride);
}

}  // namespace privgrad::cpu
