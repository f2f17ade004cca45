#include "chains.hpp"

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
namespace {

/// A part of a product: some rows and some vectors of columns, kept in registers throughout.
struct Tile {
  std::size_t inner = 0;
  std::size_t last = 0;  // lanes of the last vector, used only if it is partial
  Strided a;
  const float* b = nullptr;
  std::size_t b_stride = 0;
  Start start;
  float* product = nullptr;
  std::size_t stride = 0;
};

using TileFunction = void (*)(const Tile&);

namespace plain {

#define PRIVGRAD_TARGET
using Vector = float;
using Mask = bool;
constexpr std::size_t kLanes = 1, kRows = 2, kVectors = 4;
inline Mask mask_of(std::size_t) { return true; }
inline Vector load(const float* from) { return *from; }
inline Vector load_some(const float* from, Mask) { return *from; }
inline void store(float* to, Vector value) { *to = value; }
inline void store_some(float* to, Mask, Vector value) { *to = value; }
inline Vector broadcast(const float* from) { return *from; }
inline Vector zero() { return 0.0f; }
inline Vector fused(Vector a, Vector b, Vector sum) { return __builtin_fmaf(a, b, sum); }
#include "chain_tile.inl"
#undef PRIVGRAD_TARGET

}  // namespace plain

#ifdef __x86_64__

namespace avx2 {

#define PRIVGRAD_TARGET [[gnu::target("avx2,fma")]]
using Vector = __m256;
using Mask = __m256i;
constexpr std::size_t kLanes = 8, kRows = 6, kVectors = 2;
PRIVGRAD_TARGET inline Mask mask_of(std::size_t lanes) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(lanes)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
PRIVGRAD_TARGET inline Vector load(const float* from) { return _mm256_loadu_ps(from); }
PRIVGRAD_TARGET inline Vector load_some(const float* from, Mask mask) {
  return _mm256_maskload_ps(from, mask);
}
PRIVGRAD_TARGET inline void store(float* to, Vector value) { _mm256_storeu_ps(to, value); }
PRIVGRAD_TARGET inline void store_some(float* to, Mask mask, Vector value) {
  _mm256_maskstore_ps(to, mask, value);
}
PRIVGRAD_TARGET inline Vector broadcast(const float* from) { return _mm256_broadcast_ss(from); }
PRIVGRAD_TARGET inline Vector zero() { return _mm256_setzero_ps(); }
PRIVGRAD_TARGET inline Vector fused(Vector a, Vector b, Vector sum) {
  return _mm256_fmadd_ps(a, b, sum);
}
#include "chain_tile.inl"
#undef PRIVGRAD_TARGET

}  // namespace avx2

namespace avx512 {

#define PRIVGRAD_TARGET [[gnu::target("avx512f")]]
using Vector = __m512;
using Mask = __mmask16;
constexpr std::size_t kLanes = 16, kRows = 12, kVectors = 2;
PRIVGRAD_TARGET inline Mask mask_of(std::size_t lanes) {
  return static_cast<Mask>((1u << lanes) - 1u);
}
PRIVGRAD_TARGET inline Vector load(const float* from) { return _mm512_loadu_ps(from); }
PRIVGRAD_TARGET inline Vector load_some(const float* from, Mask mask) {
  return _mm512_maskz_loadu_ps(mask, from);
}
PRIVGRAD_TARGET inline void store(float* to, Vector value) { _mm512_storeu_ps(to, value); }
PRIVGRAD_TARGET inline void store_some(float* to, Mask mask, Vector value) {
  _mm512_mask_storeu_ps(to, mask, value);
}
PRIVGRAD_TARGET inline Vector broadcast(const float* from) { return _mm512_set1_ps(*from); }
PRIVGRAD_TARGET inline Vector zero() { return _mm512_setzero_ps(); }
PRIVGRAD_TARGET inline Vector fused(Vector a, Vector b, Vector sum) {
  return _mm512_fmadd_ps(a, b, sum);
}
#include "chain_tile.inl"
#undef PRIVGRAD_TARGET

}  // namespace avx512

#endif

struct Kernel {
  std::size_t lanes, rows, vectors;
  TileFunction (*tile_of)(std::size_t rows, std::size_t vectors, bool partial);
};

Kernel best_kernel() {
#ifdef __x86_64__
  if (instruction_set() == InstructionSet::avx512) {
    return {avx512::kLanes, avx512::kRows, avx512::kVectors, avx512::tile_of};
  }
  if (instruction_set() == InstructionSet::avx2) {
    return {avx2::kLanes, avx2::kRows, avx2::kVectors, avx2::tile_of};
  }
#endif
  return {plain::kLanes, plain::kRows, plain::kVectors, plain::tile_of};
}

/// Returns the part of `start` for a product that begins at this row and column.
Start start_at(const Start& start, std::size_t row, std::size_t column) {
  return {start.of_rows != nullptr ? start.of_rows + row : nullptr,
          start.of_columns != nullptr ? start.of_columns + column : nullptr, start.at_product};
}

/// Divides the rows into tiles of nearly the same height, because a tile of one row takes as long
/// as a tile of six rows.
void multiply_columns(const Kernel& kernel, std::size_t rows, std::size_t columns,
                      const Tile& all) {
  const std::size_t vectors = (columns + kernel.lanes - 1) / kernel.lanes;
  const std::size_t tiles = (rows + kernel.rows - 1) / kernel.rows;
  for (std::size_t i = 0; i < tiles; ++i) {
    const std::size_t row = i * rows / tiles;
    const std::size_t end = (i + 1) * rows / tiles;
    Tile tile = all;
    tile.last = columns - (vectors - 1) * kernel.lanes;
    tile.a.data += row * all.a.row;
    tile.start = start_at(all.start, row, 0);
    tile.product += row * all.stride;
    kernel.tile_of(end - row, vectors, tile.last < kernel.lanes)(tile);
  }
}

}  // namespace

namespace {

/// Multiplies one panel of columns, at most as many as a tile has.
void multiply_panel_of_columns(const Kernel& kernel, std::size_t rows, std::size_t columns,
                               std::size_t inner, Strided a, const float* b, std::size_t b_stride,
                               Start start, float* product, std::size_t stride) {
  // With this number, the part of b for a panel of columns fits the second-level cache. With a
  // smaller number it would fit the first level, but the pieces of the rows of a would be too short
  // for prefetching.
  constexpr std::size_t kInner = 1024;
  std::size_t k = 0;
  do {
    const std::size_t depth = std::min(kInner, inner - k);
    multiply_columns(kernel, rows, columns,
                     {.inner = depth,
                      .last = 0,
                      .a = {a.data + k * a.inner, a.row, a.inner},
                      .b = b + k * b_stride,
                      .b_stride = b_stride,
                      .start = k == 0 ? start : Start{{}, {}, true},
                      .product = product,
                      .stride = stride});
    k += depth;
  } while (k < inner);
}

}  // namespace

void multiply_chains(std::size_t rows, std::size_t columns, std::size_t inner, Strided a,
                     const float* b, std::size_t b_stride, Start start, float* product,
                     std::size_t stride) {
  const Kernel kernel = best_kernel();
  const std::size_t width = kernel.lanes * kernel.vectors;
  for (std::size_t column = 0; column < columns; column += width) {
    multiply_panel_of_columns(kernel, rows, std::min(width, columns - column), inner, a, b + column,
                              b_stride, start_at(start, 0, column), product + column, stride);
  }
}

Panels::Panels(std::size_t columns, std::size_t inner) : columns_(columns), inner_(inner) {
  const Kernel kernel = best_kernel();
  width_ = kernel.lanes * kernel.vectors;
  data_.resize((columns + width_ - 1) / width_ * width_ * inner);
}

void Panels::take_rows(const float* b) {
  for (std::size_t column = 0; column < columns_; column += width_) {
    float* to = data_.data() + column * inner_;
    const std::size_t some = std::min(width_, columns_ - column);
    for (std::size_t k = 0; k < inner_; ++k) {
      std::copy_n(b + k * columns_ + column, some, to + k * width_);
    }
  }
}

void Panels::take_columns(const float* b) {
  for (std::size_t column = 0; column < columns_; column += width_) {
    transpose(std::min(width_, columns_ - column), inner_, b + column * inner_, inner_,
              data_.data() + column * inner_, width_);
  }
}

void multiply_chains(std::size_t rows, Strided a, const Panels& b, Start start, float* product,
                     std::size_t stride) {
  const Kernel kernel = best_kernel();
  for (std::size_t column = 0; column < b.columns(); column += b.width()) {
    multiply_panel_of_columns(kernel, rows, std::min(b.width(), b.columns() - column), b.inner(), a,
                              b.panel(column), b.width(), start_at(start, 0, column),
                              product + column, stride);
  }
}

// --- Transposes, which involve no rounding.

namespace {

void transpose_plain(std::size_t rows, std::size_t columns, const float* from,
                     std::size_t from_stride, float* to, std::size_t to_stride) {
  for (std::size_t j = 0; j < columns; ++j) {
    for (std::size_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
  }
}

#ifdef __x86_64__
/// Transposes eight rows and eight columns: exchanges pairs, then fours, then halves of registers.
[[gnu::target("avx2")]] void transpose_eight(const float* from, std::size_t from_stride, float* to,
                                             std::size_t to_stride) {
  __m256 rows[8], pairs[8];
  for (std::size_t i = 0; i < 8; ++i) rows[i] = _mm256_loadu_ps(from + i * from_stride);
  for (std::size_t i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (std::size_t i = 0; i < 8; i += 4) {
    rows[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    rows[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    rows[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    rows[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(rows[i], rows[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(rows[i], rows[i + 4], 0x31));
  }
}

void transpose_wide(std::size_t rows, std::size_t columns, const float* from,
                    std::size_t from_stride, float* to, std::size_t to_stride) {
  const std::size_t whole_rows = rows / 8 * 8;
  const std::size_t whole_columns = columns / 8 * 8;
  for (std::size_t i = 0; i < whole_rows; i += 8) {
    for (std::size_t j = 0; j < whole_columns; j += 8) {
      transpose_eight(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
    }
  }
  transpose_plain(rows - whole_rows, whole_columns, from + whole_rows * from_stride, from_stride,
                  to + whole_rows, to_stride);
  transpose_plain(rows, columns - whole_columns, from + whole_columns, from_stride,
                  to + whole_columns * to_stride, to_stride);
}
#endif

}  // namespace

void transpose(std::size_t rows, std::size_t columns, const float* from, std::size_t from_stride,
               float* to, std::size_t to_stride) {
#ifdef __x86_64__
  if (instruction_set() >= InstructionSet::avx2) {
    transpose_wide(rows, columns, from, from_stride, to, to_stride);
    return;
  }
#endif
  transpose_plain(rows, columns, from, from_stride, to, to_stride);
}

// --- Dense layers, forwards.

void pack_panel(std::size_t rows, std::size_t inner, const float* examples, float* panel) {
  transpose(rows, inner, examples, inner, panel, kPanel);
  for (std::size_t k = 0; k < inner && rows < kPanel; ++k) {
    std::fill(panel + k * kPanel + rows, panel + (k + 1) * kPanel, 0.0f);
  }
}

void multiply_panel(std::size_t rows, std::size_t units, std::size_t inner, const float* panel,
                    const float* weights, const float* biases, float* out, std::size_t stride) {
  constexpr std::size_t kUnits = 48;
  float sums[kUnits * kPanel];
  for (std::size_t unit = 0; unit < units; unit += kUnits) {
    const std::size_t some = std::min(kUnits, units - unit);
    multiply_chains(some, rows, inner, {weights + unit * inner, inner, 1}, panel, kPanel,
                    {.of_rows = biases + unit, .of_columns = nullptr, .at_product = false}, sums,
                    kPanel);
    transpose(some, rows, sums, kPanel, out + unit, stride);
  }
}

}  // namespace privgrad::cpu
