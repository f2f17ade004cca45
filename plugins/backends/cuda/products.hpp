// The kernel for products of float32, whose results do not depend on the size or the order of a
// batch.
#pragma once

#include <type_traits>

#include "device_code.hpp"

// Each element of each product is one chain of fused multiply-adds,
//   fma(a[n-1], b[n-1], ... fma(a[1], b[1], fma(a[0], b[0], start))),
// in the order of k for any number of rows and columns, place of the element, and tiling: an
// example's results depend only on the example, and not on the size of a batch, which is private.
// The backend `cpu` has the same chains.
namespace privgrad::cuda {

/// The beginnings of an operand's batches. Each example has several heads, and `share` consecutive
/// heads may have the same operand.
struct Batches {
  uint64_t of_example = 0, of_head = 0;  // distances between two beginnings, in numbers
  uint64_t heads = 1, share = 1;

  PRIVGRAD_HD uint64_t begin(uint64_t batch) const {
    return batch / heads * of_example + batch % heads / share * of_head;
  }
};

// A product's operands are read by `place`, the number of a row (or column), and k, the index along
// the chain. They provide
//   locate(batch, chain, place): a Place, with everything that does not depend on k, computed once
//   per tile; at(k): everything that depends only on k; find(Place, at): the element, which is 0 if
//   `is_there` is false; and kByInner: whether neighbours in memory differ in k; otherwise they
//   differ in `place`.

struct Element {
  const float* value;  // may be read even if the element is not there
  bool is_there = true;
};

/// A matrix whose rows run along k: element k of `place` is values[place * stride + k].
struct AlongInner {
  static constexpr bool kByInner = true;
  using Place = const float*;
  const float* values;
  uint64_t stride;
  Batches batches = {};

  PRIVGRAD_HD Place locate(uint64_t batch, uint32_t, uint64_t place) const {
    return values + batches.begin(batch) + place * stride;
  }
  PRIVGRAD_HD uint32_t at(uint32_t k) const { return k; }
  PRIVGRAD_HD Element find(Place place, uint32_t k) const { return {place + k}; }
};

/// A matrix whose rows run along the places: element k of `place` is values[k * stride + place].
struct AcrossInner {
  static constexpr bool kByInner = false;
  using Place = const float*;
  const float* values;
  uint64_t stride;
  Batches batches = {};

  PRIVGRAD_HD Place locate(uint64_t batch, uint32_t, uint64_t place) const {
    return values + batches.begin(batch) + place;
  }
  PRIVGRAD_HD uint64_t at(uint32_t k) const { return k * stride; }
  PRIVGRAD_HD Element find(Place place, uint64_t at) const { return {place + at}; }
};

/// The extents of a product; Product explains chains.
struct Extents {
  uint64_t rows;
  uint32_t columns, inner;
  uint64_t batches = 1;
  uint32_t chains = 1;
};

/// The destination of a product: element (row, column) is stored in values[row * stride + column].
struct Result {
  float* values;
  uint64_t stride;
  const float* starts = nullptr;  // starts of each column's chains; null: 0
  Batches batches = {};
};

/// How work is divided: a block computes kRows * kColumns elements, each thread 8 * kEach of them.
template <uint32_t rows, uint32_t columns>
struct Tile {
  static constexpr uint32_t kRows = rows, kColumns = columns, kEach = rows * columns / 8 / kThreads;
};
using WideTile = Tile<128, 128>;
using NarrowTile = Tile<256, 64>;
using NarrowestTile = Tile<256, 32>;

/// Four numbers of shared memory, which a thread reads at once.
struct alignas(16) Four {
  float value[4];
};

/// Computes a product, tile by tile, in pieces of kInner elements of the chain: while the threads
/// of a block multiply one piece, the next piece is copied to shared memory.
///
/// \tparam kAddsChains  whether each element is the sum of several chains, added to 0 in order,
///   without chains whose first operand is not there (Place::is_there). The first operand then
///   prepares each row once (begin()), and reports which chains no row of a tile has (skips()) and
///   where a row's results begin.
template <class A, class B, class Shape, bool kAddsChains = false>
struct Product {
  static constexpr uint32_t kRows = Shape::kRows, kColumns = Shape::kColumns, kInner = 16;
  static constexpr uint32_t kEachRow = 8, kEachColumn = Shape::kEach;
  // A warp's threads are arranged 4 x 8; each thread's elements lie in blocks of 4 x 4.
  static constexpr uint32_t kWarp = 32, kAcross = 8, kDown = 4;
  static constexpr uint32_t kWarpsAcross = kColumns / (kAcross * kEachColumn);
  static_assert(kRows * kColumns == kThreads * kEachRow * kEachColumn && kEachColumn % 4 == 0);
  // With several chains, one set of places is written while two are read.
  static constexpr uint32_t kSets = kAddsChains ? 3 : 1;

  struct Shared {
    Four a[2][kInner][kRows / 4 + 1];
    Four b[2][kInner][kColumns / 4 + 1];
    typename A::Place rows[kSets][kRows];
    typename B::Place columns[kSets][kColumns];
  };
  struct Sums {
    float chain[kEachRow][kEachColumn];
    float sum[kAddsChains ? kEachRow : 1][kAddsChains ? kEachColumn : 1];
  };
  /// The block's tile.
  struct Where {
    uint64_t batch, top, left;
    uint32_t rows, columns;
  };
  struct NoOrigins {
    struct Origin {};
    struct Ends {};
  };
  using Origins = std::conditional_t<kAddsChains, A, NoOrigins>;
  using Origin = typename Origins::Origin;
  using Ends = typename Origins::Ends;

  A a;
  B b;
  Extents extents;
  Result result;

  uint64_t blocks() const { return extents.batches * down() * across(); }

  PRIVGRAD_HD uint64_t down() const { return (extents.rows + kRows - 1) / kRows; }
  PRIVGRAD_HD uint64_t across() const { return (extents.columns + kColumns - 1) / kColumns; }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    const uint64_t tile = block % (down() * across());
    const uint64_t top = tile % down() * kRows, left = tile / down() * kColumns;
    const Where where{block / (down() * across()), top, left,
                      static_cast<uint32_t>(smaller<uint64_t>(kRows, extents.rows - top)),
                      static_cast<uint32_t>(smaller<uint64_t>(kColumns, extents.columns - left))};
    const uint32_t chains = kAddsChains ? extents.chains : 1;
    Ends ends{};
    if constexpr (kAddsChains) ends = a.ends(where.top, where.rows);
    uint32_t chain = next(ends, 0), following = next(ends, chain + 1);
    PerThread<Sums> sums;
    PerThread<Origin> origins;
    each_thread([&](uint32_t thread) {
      if constexpr (kAddsChains) {
        static_assert(kRows <= kThreads);
        if (thread < where.rows) origins[thread] = a.begin(where.top + thread);
      }
      if (chain < chains) locate(where, chain, 0, thread, origins[thread], shared);
      begin(where, thread, sums[thread]);
    });
    each_thread([&](uint32_t thread) {
      if (chain < chains) load(where, 0, 0, thread, 0, shared);
      if (following < chains) locate(where, following, 1, thread, origins[thread], shared);
      finish_copies();
    });
    uint32_t now = 0;  // which half of shared memory has the current piece
    for (uint32_t set = 0; chain < chains; set = (set + 1) % kSets) {
      const uint32_t after = next(ends, following + 1);
      for (uint32_t first = 0; first < extents.inner; first += kInner, now ^= 1) {
        const bool is_last = extents.inner - first <= kInner;
        each_thread([&](uint32_t thread) {
          if (!is_last) {
            load(where, set, first + kInner, thread, now ^ 1, shared);
          } else if (following < chains) {
            load(where, (set + 1) % kSets, 0, thread, now ^ 1, shared);
            if (after < chains)
              locate(where, after, (set + 2) % kSets, thread, origins[thread], shared);
          }
          multiply(where, extents.inner - first, thread, now, shared, sums[thread]);
          if constexpr (kAddsChains) {
            if (is_last) end_chain(where, set, thread, shared, sums[thread]);
          }
          finish_copies();
        });
      }
      chain = following;
      following = after;
    }
    each_thread([&](uint32_t thread) { store(where, thread, sums[thread]); });
  }

 private:
  /// Returns the first row of a thread, or its row i.
  PRIVGRAD_HD static uint32_t row_of(uint32_t thread, uint32_t i = 0) {
    const uint32_t warp = thread / kWarp / kWarpsAcross, lane = thread % kWarp / kAcross;
    return warp * kDown * kEachRow + i / 4 * (4 * kDown) + lane * 4 + i % 4;
  }
  PRIVGRAD_HD static uint32_t column_of(uint32_t thread, uint32_t j = 0) {
    const uint32_t warp = thread / kWarp % kWarpsAcross, lane = thread % kAcross;
    return warp * kAcross * kEachColumn + j / 4 * (4 * kAcross) + lane * 4 + j % 4;
  }

  /// Whether all of a thread's elements are outside the matrices.
  PRIVGRAD_HD static bool is_idle(const Where& where, uint32_t thread) {
    return row_of(thread) >= where.rows || column_of(thread) >= where.columns;
  }

  /// Returns the first chain from `chain` on that the tile has.
  PRIVGRAD_HD uint32_t next(const Ends& ends, uint32_t chain) const {
    if constexpr (kAddsChains) {
      while (chain < extents.chains && a.skips(ends, chain)) ++chain;
    }
    return chain;
  }

  PRIVGRAD_HD void locate(const Where& where, uint32_t chain, uint32_t set, uint32_t thread,
                          const Origin& origin, Shared& shared) const {
    if (thread < where.rows) {
      if constexpr (kAddsChains) {
        shared.rows[set][thread] = a.locate(origin, chain);
      } else {
        shared.rows[set][thread] = a.locate(where.batch, chain, where.top + thread);
      }
    }
    if (thread < where.columns)
      shared.columns[set][thread] = b.locate(where.batch, chain, where.left + thread);
  }

  PRIVGRAD_HD void begin(const Where& where, uint32_t thread, Sums& sums) const {
    if (is_idle(where, thread)) return;
    PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEachColumn; ++j) {
      const uint32_t column = column_of(thread, j);
      const bool has_start = result.starts != nullptr && column < where.columns;
      const float start = has_start ? result.starts[where.left + column] : 0.0f;
      PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEachRow; ++i) {
        sums.chain[i][j] = start;
        if constexpr (kAddsChains) sums.sum[i][j] = 0.0f;
      }
    }
  }

  /// Begins to copy a piece. Elements outside the matrices get arbitrary values, which do not enter
  /// any stored chain.
  PRIVGRAD_HD void load(const Where& where, uint32_t set, uint32_t first, uint32_t thread,
                        uint32_t half, Shared& shared) const {
    load_operand<kRows>(a, shared.rows[set], where.rows, first, thread, shared.a[half]);
    load_operand<kColumns>(b, shared.columns[set], where.columns, first, thread, shared.b[half]);
  }

  template <uint32_t kPlaces, class Operand>
  PRIVGRAD_HD void load_operand(const Operand& operand, const typename Operand::Place* places,
                                uint32_t count, uint32_t first, uint32_t thread,
                                Four (*to)[kPlaces / 4 + 1]) const {
    if constexpr (Operand::kByInner) {
      constexpr uint32_t kRun = 8;  // values of k: 32 bytes, which memory delivers at once
      PRIVGRAD_UNROLL for (uint32_t run = 0; run < kInner; run += kRun) {
        const uint32_t k = run + thread % kRun;
        if (first + k >= extents.inner) continue;
        const auto at = operand.at(first + k);
        PRIVGRAD_UNROLL for (uint32_t next = 0; next < kPlaces; next += kThreads / kRun) {
          const uint32_t place = next + thread / kRun;
          if (place < count) begin_copy(to, k, place, operand.find(places[place], at));
        }
      }
    } else {
      const uint32_t place = thread % kPlaces;
      if (place >= count) return;
      const auto own = places[place];
      PRIVGRAD_UNROLL for (uint32_t next = 0; next < kInner; next += kThreads / kPlaces) {
        const uint32_t k = next + thread / kPlaces;
        if (first + k < extents.inner)
          begin_copy(to, k, place, operand.find(own, operand.at(first + k)));
      }
    }
  }

  template <uint32_t kPitch>
  PRIVGRAD_HD static void begin_copy(Four (*to)[kPitch], uint32_t k, uint32_t place,
                                     const Element& element) {
    cuda::begin_copy(&to[k][place / 4].value[place % 4], element.value, element.is_there);
  }

  PRIVGRAD_HD static void multiply(const Where& where, uint32_t rest, uint32_t thread,
                                   uint32_t half, const Shared& shared, Sums& sums) {
    if (is_idle(where, thread)) return;
    if (rest >= kInner) {
      PRIVGRAD_UNROLL for (uint32_t k = 0; k < kInner; ++k) {
        multiply_one(thread, shared.a[half][k], shared.b[half][k], sums);
      }
    } else {
      for (uint32_t k = 0; k < rest; ++k) {
        multiply_one(thread, shared.a[half][k], shared.b[half][k], sums);
      }
    }
  }

  PRIVGRAD_HD static void multiply_one(uint32_t thread, const Four* of_a, const Four* of_b,
                                       Sums& sums) {
    Four left[kEachRow / 4], right[kEachColumn / 4];
    PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEachRow / 4; ++i) {
      left[i] = of_a[row_of(thread, 4 * i) / 4];
    }
    PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEachColumn / 4; ++j) {
      right[j] = of_b[column_of(thread, 4 * j) / 4];
    }
    PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEachRow; ++i) {
      PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEachColumn; ++j) {
        sums.chain[i][j] =
            fused(left[i / 4].value[i % 4], right[j / 4].value[j % 4], sums.chain[i][j]);
      }
    }
  }

  PRIVGRAD_HD static void end_chain(const Where& where, uint32_t set, uint32_t thread,
                                    const Shared& shared, Sums& sums) {
    if (is_idle(where, thread)) return;
    PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEachRow; ++i) {
      const uint32_t row = row_of(thread, i);
      const bool adds = row < where.rows && shared.rows[set][row].is_there();
      PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEachColumn; ++j) {
        if (adds) sums.sum[i][j] += sums.chain[i][j];
        sums.chain[i][j] = 0.0f;
      }
    }
  }

  PRIVGRAD_HD void store(const Where& where, uint32_t thread, const Sums& sums) const {
    if (is_idle(where, thread)) return;
    float* const own = result.values + result.batches.begin(where.batch);
    PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEachRow; ++i) {
      const uint32_t row = row_of(thread, i);
      uint64_t begin = (where.top + row) * result.stride;
      if constexpr (kAddsChains) begin = a.result_of(where.top + row);
      PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEachColumn; ++j) {
        const uint32_t column = column_of(thread, j);
        if (row >= where.rows || column >= where.columns) continue;
        float value = sums.chain[i][j];
        if constexpr (kAddsChains) value = sums.sum[i][j];
        own[begin + where.left + column] = value;
      }
    }
  }
};

}  // namespace privgrad::cuda
