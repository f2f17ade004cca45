// Matrix products on tensor cores, with factors rounded to tf32 or bf16.
#pragma once

#include "products.hpp"
#ifdef __CUDACC__
#include <mma.h>
#endif

// Sums are in float32. The rounding of factors is written here, to nearest and to even, and is the
// same on the device and on the twin. The additions of a tensor core are not: NVIDIA specifies
// neither their order nor their rounding. The twin adds in the order of the inner extent, by fused
// multiply-adds; so these products have the twin's bits on the twin alone, and on a GPU those of
// its compute capability (program.hpp).
//
// The algorithm is one, whatever the extents: blocks of 64 times 64, fragments of 16 times 16, the
// inner extent in pieces of 16 from first to last, none of it split and nothing added atomically.
namespace privgrad::cuda {

/// x with so many bits of its fraction dropped, to nearest, ties to even.
PRIVGRAD_HD uint32_t without_last_bits(float x, uint32_t dropped) {
  if (x != x) return kFloatNan;  // its bits may be such that a carry makes another number
  const uint32_t bits = bits_of(x);
  const uint32_t is_odd = bits >> dropped & 1u;
  return (bits + (1u << (dropped - 1)) - 1u + is_odd) >> dropped << dropped;
}

/// 10 bits of fraction, in a float's place.
struct Tf32 {
  using Stored = float;
  static constexpr uint32_t kInner = 8;  // of one fragment
  static constexpr uint32_t kPad = 8;    // rows of shared memory begin at multiples of 32 bytes
  PRIVGRAD_HD static Stored stored(float x) { return float_of(without_last_bits(x, 13)); }
  PRIVGRAD_HD static float value(Stored x) { return x; }
#ifdef __CUDACC__
  using Element = nvcuda::wmma::precision::tf32;
  using Loaded = float;
#endif
};

/// 7 bits of fraction: the upper half of a float.
struct Bf16 {
  using Stored = uint16_t;
  static constexpr uint32_t kInner = 16;
  static constexpr uint32_t kPad = 16;
  PRIVGRAD_HD static Stored stored(float x) {
    return static_cast<uint16_t>(without_last_bits(x, 16) >> 16);
  }
  PRIVGRAD_HD static float value(Stored x) { return float_of(uint32_t{x} << 16); }
#ifdef __CUDACC__
  using Element = __nv_bfloat16;
  using Loaded = __nv_bfloat16;
#endif
};

/// The sums of 16 rows times 16 columns that a warp keeps: in its threads' registers on the device.
template <class Factor>
struct Fragment {
#ifdef __CUDA_ARCH__
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, Factor::kInner, float> sums;
#else
  float sums[16][16];
#endif

  /// \param from  [16, 16], stride numbers from row to row.
  PRIVGRAD_HD void load(const float* from, uint32_t stride) {
#ifdef __CUDA_ARCH__
    nvcuda::wmma::load_matrix_sync(sums, from, stride, nvcuda::wmma::mem_row_major);
#else
    for (uint32_t i = 0; i < 16; ++i) {
      for (uint32_t j = 0; j < 16; ++j) sums[i][j] = from[i * stride + j];
    }
#endif
  }

  PRIVGRAD_HD void store(float* to, uint32_t stride) const {
#ifdef __CUDA_ARCH__
    nvcuda::wmma::store_matrix_sync(to, sums, stride, nvcuda::wmma::mem_row_major);
#else
    for (uint32_t i = 0; i < 16; ++i) {
      for (uint32_t j = 0; j < 16; ++j) to[i * stride + j] = sums[i][j];
    }
#endif
  }

  /// sums[i, j] += sum over k of a[k, i] b[k, j], for Factor::kInner many k.
  /// \param a, b  from one k to the next: stride.
  PRIVGRAD_HD void multiply(const typename Factor::Stored* a, const typename Factor::Stored* b,
                            uint32_t stride) {
#ifdef __CUDA_ARCH__
    using namespace nvcuda;
    using Element = typename Factor::Element;
    using Loaded = typename Factor::Loaded;
    wmma::fragment<wmma::matrix_a, 16, 16, Factor::kInner, Element, wmma::col_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, Factor::kInner, Element, wmma::row_major> right;
    wmma::load_matrix_sync(left, reinterpret_cast<const Loaded*>(a), stride);
    wmma::load_matrix_sync(right, reinterpret_cast<const Loaded*>(b), stride);
    wmma::mma_sync(sums, left, right, sums);
#else
    for (uint32_t i = 0; i < 16; ++i) {
      for (uint32_t j = 0; j < 16; ++j) {
        for (uint32_t k = 0; k < Factor::kInner; ++k) {
          sums[i][j] =
              fused(Factor::value(a[k * stride + i]), Factor::value(b[k * stride + j]), sums[i][j]);
        }
      }
    }
#endif
  }
};

/// The product of a Problem of floats (products.hpp), with its factors rounded.
template <class Problem, class Factor>
struct RoundedProduct {
  static constexpr uint32_t kTile = 64, kInner = 16, kSide = 16;
  static constexpr uint32_t kStride = kTile + Factor::kPad, kSumStride = kTile + 8;
  static constexpr uint32_t kLoads = kTile * kInner / kThreads;
  static constexpr uint32_t kEach = kTile * kTile / kThreads;
  static constexpr uint32_t kFragments = 2;  // of a warp, side by side
  static_assert((kTile / kSide) * (kTile / kSide) == kFragments * kWarps);

  struct Shared {
    alignas(32) typename Factor::Stored a[kInner][kStride];
    alignas(32) typename Factor::Stored b[kInner][kStride];
    alignas(32) float sums[kTile][kSumStride];
  };
  struct Own {
    Fragment<Factor> of[kFragments];
  };

  Problem problem;

  uint64_t blocks() const { return uint64_t{problem.batches} * down() * across(); }

  PRIVGRAD_HD uint64_t down() const { return (uint64_t{problem.rows} + kTile - 1) / kTile; }
  PRIVGRAD_HD uint64_t across() const { return (uint64_t{problem.columns} + kTile - 1) / kTile; }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    const uint64_t batch = block / (down() * across());
    const uint64_t tile = block % (down() * across());
    const uint64_t top = tile % down() * kTile;
    const uint64_t left = tile / down() * kTile;
    each_thread([&](uint32_t thread) {
      for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t row = (i * kThreads + thread) / kTile;
        const uint32_t column = thread % kTile;
        const bool inside = top + row < problem.rows && left + column < problem.columns;
        shared.sums[row][column] = inside ? problem.start(batch, top + row, left + column) : 0.0f;
      }
    });
    PerWarp<Own> own;
    each_warp([&](uint32_t warp) {
      PRIVGRAD_UNROLL for (uint32_t f = 0; f < kFragments; ++f) {
        own[warp].of[f].load(&shared.sums[row_of(warp)][column_of(warp, f)], kSumStride);
      }
    });
    for (uint64_t first = 0; first < problem.inner; first += kInner) {
      each_thread([&](uint32_t thread) { load(batch, top, left, first, thread, shared); });
      each_warp([&](uint32_t warp) {
        PRIVGRAD_UNROLL for (uint32_t k = 0; k < kInner; k += Factor::kInner) {
          PRIVGRAD_UNROLL for (uint32_t f = 0; f < kFragments; ++f) {
            own[warp].of[f].multiply(&shared.a[k][row_of(warp)], &shared.b[k][column_of(warp, f)],
                                     kStride);
          }
        }
      });
    }
    each_warp([&](uint32_t warp) {
      PRIVGRAD_UNROLL for (uint32_t f = 0; f < kFragments; ++f) {
        own[warp].of[f].store(&shared.sums[row_of(warp)][column_of(warp, f)], kSumStride);
      }
    });
    each_thread([&](uint32_t thread) {
      for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t row = (i * kThreads + thread) / kTile;
        const uint32_t column = thread % kTile;
        if (top + row < problem.rows && left + column < problem.columns) {
          problem.store(batch, top + row, left + column, shared.sums[row][column]);
        }
      }
    });
  }

 private:
  PRIVGRAD_HD static uint32_t row_of(uint32_t warp) { return warp / kFragments * kSide; }
  PRIVGRAD_HD static uint32_t column_of(uint32_t warp, uint32_t fragment) {
    return (warp % kFragments * kFragments + fragment) * kSide;
  }

  /// Elements outside the matrices are 0: they add nothing, or are never stored.
  PRIVGRAD_HD void load(uint64_t batch, uint64_t top, uint64_t left, uint64_t first,
                        uint32_t thread, Shared& shared) const {
    PRIVGRAD_UNROLL for (uint32_t load = 0; load < kLoads; ++load) {
      const uint32_t at = load * kThreads + thread;
      const uint32_t a_inner = Problem::kAByInner ? at % kInner : at / kTile;
      const uint32_t a_place = Problem::kAByInner ? at / kInner : at % kTile;
      const uint32_t b_inner = Problem::kBByInner ? at % kInner : at / kTile;
      const uint32_t b_place = Problem::kBByInner ? at / kInner : at % kTile;
      const bool a_inside = top + a_place < problem.rows && first + a_inner < problem.inner;
      const bool b_inside = left + b_place < problem.columns && first + b_inner < problem.inner;
      shared.a[a_inner][a_place] =
          Factor::stored(a_inside ? problem.a(batch, top + a_place, first + a_inner) : 0.0f);
      shared.b[b_inner][b_place] =
          Factor::stored(b_inside ? problem.b(batch, first + b_inner, left + b_place) : 0.0f);
    }
  }
};

/// ConvBackward as a product: below[e, pixel, d] = sum over the windows' rows, columns and channels
/// of weights[c, u, v, d] times delta at the place that sees the pixel at (u, v), or 0.
struct ConvBackwardProduct : FloatProduct {
  static constexpr bool kAByInner = true, kBByInner = false;
  Convolution conv;
  const float *delta, *weights;
  float* below;
  PRIVGRAD_HD float a(uint64_t, uint64_t i, uint64_t p) const {
    const uint64_t example = i / (conv.height * conv.width);
    const uint64_t pixel = i % (conv.height * conv.width);
    const uint64_t row = pixel / conv.width + conv.padding;
    const uint64_t column = pixel % conv.width + conv.padding;
    const uint64_t u = p / (conv.kernel * conv.channels);
    const uint64_t v = p / conv.channels % conv.kernel;
    if (row < u || column < v) return 0.0f;
    if ((row - u) % conv.stride != 0 || (column - v) % conv.stride != 0) return 0.0f;
    const uint64_t y = (row - u) / conv.stride;
    const uint64_t x = (column - v) / conv.stride;
    if (y >= conv.rows || x >= conv.columns) return 0.0f;
    return delta[example * conv.outputs() + (y * conv.columns + x) * conv.channels +
                 p % conv.channels];
  }
  PRIVGRAD_HD float b(uint64_t, uint64_t p, uint64_t d) const {
    const uint64_t window = p / conv.channels;
    return weights[p % conv.channels * conv.patch() + window * conv.depth + d];
  }
  PRIVGRAD_HD float start(uint64_t, uint64_t, uint64_t) const { return 0.0f; }
  PRIVGRAD_HD void store(uint64_t, uint64_t i, uint64_t d, float sum) const {
    below[i * columns + d] = sum;
  }
};

}  // namespace privgrad::cuda
