// The kernel for products of whole numbers.
#pragma once

#include "convolutions.hpp"
#include "rounding.hpp"

// Sums of whole numbers are the same in any order.
namespace privgrad::cuda {

/// A product, tile by tile: a block computes kTile rows times kTile columns, in pieces of kInner of
/// the chain, which its threads load together.
///
/// A Problem has the types Number and Sum; the extents rows, columns and inner; the number of
/// batches; the functions a(batch, row, k), b(batch, k, column), start(batch, row, column), add(a,
/// b, sum) and store(batch, row, column, sum); and kAByInner and kBByInner: whether neighbours in
/// memory are neighbours in k.
template <class Problem>
struct WholeProduct {
  static constexpr uint32_t kTile = 64, kInner = 16, kEach = 4;
  static constexpr uint32_t kAcross = kTile / kEach;  // threads side by side
  static constexpr uint32_t kLoads = kTile * kInner / kThreads;
  static_assert(kAcross * kAcross == kThreads);

  struct Shared {
    typename Problem::Number a[kInner][kTile + 1];
    typename Problem::Number b[kInner][kTile + 1];
  };
  struct Sums {
    typename Problem::Sum of[kEach][kEach];
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
    PerThread<Sums> sums;
    each_thread([&](uint32_t thread) {
      const uint64_t row = top + uint64_t{thread / kAcross} * kEach;
      const uint64_t column = left + uint64_t{thread % kAcross} * kEach;
      PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEach; ++i) {
        PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEach; ++j) {
          const bool inside = row + i < problem.rows && column + j < problem.columns;
          sums[thread].of[i][j] = inside ? problem.start(batch, row + i, column + j) : 0;
        }
      }
    });
    for (uint64_t first = 0; first < problem.inner; first += kInner) {
      each_thread([&](uint32_t thread) { load(batch, top, left, first, thread, shared); });
      const auto some = static_cast<uint32_t>(smaller<uint64_t>(kInner, problem.inner - first));
      each_thread([&](uint32_t thread) { multiply(thread, some, shared, sums[thread]); });
    }
    each_thread([&](uint32_t thread) {
      const uint64_t row = top + uint64_t{thread / kAcross} * kEach;
      const uint64_t column = left + uint64_t{thread % kAcross} * kEach;
      PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEach; ++i) {
        PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEach; ++j) {
          if (row + i < problem.rows && column + j < problem.columns) {
            problem.store(batch, row + i, column + j, sums[thread].of[i][j]);
          }
        }
      }
    });
  }

 private:
  /// Elements outside the matrices are 0, and never stored.
  PRIVGRAD_HD void load(uint64_t batch, uint64_t top, uint64_t left, uint64_t first,
                        uint32_t thread, Shared& shared) const {
    PRIVGRAD_UNROLL for (uint32_t load = 0; load < kLoads; ++load) {
      const uint32_t at = load * kThreads + thread;
      const uint32_t a_inner = Problem::kAByInner ? at % kInner : at / kTile;
      const uint32_t a_place = Problem::kAByInner ? at / kInner : at % kTile;
      const uint32_t b_inner = Problem::kBByInner ? at % kInner : at / kTile;
      const uint32_t b_place = Problem::kBByInner ? at / kInner : at % kTile;
      shared.a[a_inner][a_place] = top + a_place < problem.rows && first + a_inner < problem.inner
                                       ? problem.a(batch, top + a_place, first + a_inner)
                                       : 0;
      shared.b[b_inner][b_place] =
          left + b_place < problem.columns && first + b_inner < problem.inner
              ? problem.b(batch, first + b_inner, left + b_place)
              : 0;
    }
  }

  PRIVGRAD_HD static void multiply(uint32_t thread, uint32_t inner, const Shared& shared,
                                   Sums& sums) {
    const uint32_t row = thread / kAcross * kEach;
    const uint32_t column = thread % kAcross * kEach;
    for (uint32_t k = 0; k < inner; ++k) {
      typename Problem::Number a[kEach], b[kEach];
      PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEach; ++i) a[i] = shared.a[k][row + i];
      PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEach; ++j) b[j] = shared.b[k][column + j];
      PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEach; ++i) {
        PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEach; ++j) {
          sums.of[i][j] = Problem::add(a[i], b[j], sums.of[i][j]);
        }
      }
    }
  }
};

/// The gradient of the weights in integers, from delta and pixels rounded such that no sum
/// overflows int32.
struct PlaceSums {
  using Number = int32_t;
  using Sum = int32_t;
  static constexpr bool kAByInner = false, kBByInner = false;
  PRIVGRAD_HD static int32_t add(int32_t a, int32_t b, int32_t sum) { return sum + a * b; }
  uint64_t rows, columns, inner, batches;
  PatchColumns pixels;
  const float* delta;
  const PlaceRoundings* roundings;  // the roundings of each example
  int32_t* sums;                    // [examples, channels, patch]
  PRIVGRAD_HD int32_t a(uint64_t e, uint64_t c, uint64_t t) const {
    return rounded(delta[(e * inner + t) * rows + c], roundings[e].of_delta);
  }
  PRIVGRAD_HD int32_t b(uint64_t e, uint64_t t, uint64_t p) const {
    const Element pixel = pixels.find(pixels.locate(e, 0, p), pixels.at(static_cast<uint32_t>(t)));
    return pixel.is_there ? rounded(*pixel.value, roundings[e].of_image) : 0;
  }
  PRIVGRAD_HD int32_t start(uint64_t, uint64_t, uint64_t) const { return 0; }
  PRIVGRAD_HD void store(uint64_t e, uint64_t c, uint64_t p, int32_t sum) const {
    sums[(e * rows + c) * columns + p] = sum;
  }
};

/// sum[u, k] += sum over the chosen examples of units[e, u] inputs[e, k], modulo 2^64. Products are
/// below 2^28 in absolute value.
struct CellProduct {
  using Number = int32_t;
  using Sum = uint64_t;
  static constexpr bool kAByInner = false, kBByInner = false;
  PRIVGRAD_HD static uint64_t add(int32_t a, int32_t b, uint64_t sum) {
    return sum + static_cast<uint64_t>(int64_t{a} * b);
  }
  uint64_t rows, columns, inner, batches;
  const int16_t *units, *inputs;
  const uint8_t* taken;
  uint64_t* sum;
  PRIVGRAD_HD int32_t a(uint64_t, uint64_t u, uint64_t e) const {
    return taken[e] != 0 ? units[e * rows + u] : 0;
  }
  PRIVGRAD_HD int32_t b(uint64_t, uint64_t e, uint64_t k) const { return inputs[e * columns + k]; }
  PRIVGRAD_HD uint64_t start(uint64_t, uint64_t u, uint64_t k) const {
    return sum[u * columns + k];
  }
  PRIVGRAD_HD void store(uint64_t, uint64_t u, uint64_t k, uint64_t value) const {
    sum[u * columns + k] = value;
  }
};

}  // namespace privgrad::cuda
