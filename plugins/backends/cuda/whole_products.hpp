// The kernel that multiplies matrices of whole numbers on tensor cores.
#pragma once

#include <stdexcept>

#include "convolutions.hpp"
#include "rounding.hpp"

// Sums of whole numbers are the same in any order, so any unit of any processor may compute them: a
// tensor core's int32 additions wrap around and are otherwise exact, by specification (PTX ISA,
// "mma"). A factor q, at most 2^14 in size, is 256 h + l with h and l within int8. The product of
// two factors is 2^16 h h' + 2^8 (h l' + l h') + l l'.
namespace privgrad::cuda {

/// Returns the factor. A factor above 2^14 would make digits and sums of products wrap around; the
/// twin, on which every kernel is tested, throws for such a factor.
PRIVGRAD_HD int32_t checked_factor(int32_t value) {
#ifndef __CUDA_ARCH__
  constexpr int32_t kMost = 1 << 14;
  if (value < -kMost || value > kMost)
    throw std::logic_error("a factor of a product of whole numbers is larger than 2^14");
#endif
  return value;
}

/// One thread's part of a warp's product of int8 numbers, sum[16, 8] += a[16, 32] b[32, 8]: four
/// words of a, two of b, and four sums, laid out as for mma.m16n8k32.
struct WarpProduct {
  const uint32_t* a;
  const uint32_t* b;
  uint32_t* sum;
};

/// Multiplies in each warp whose threads satisfy has(thread). of(thread) returns a thread's part.
template <class Has, class Of>
PRIVGRAD_HD void multiply_in_warps(const Has& has, const Of& of) {
#ifdef __CUDA_ARCH__
  if (!has(threadIdx.x)) return;
  const WarpProduct own = of(threadIdx.x);
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, "
      "{%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(own.sum[0]), "+r"(own.sum[1]), "+r"(own.sum[2]), "+r"(own.sum[3])
      : "r"(own.a[0]), "r"(own.a[1]), "r"(own.a[2]), "r"(own.a[3]), "r"(own.b[0]), "r"(own.b[1]));
#else
  constexpr uint32_t kLanes = 32;
  const auto byte = [](uint32_t word, uint32_t i) {
    return static_cast<int32_t>(static_cast<int8_t>(word >> (8 * i) & 0xff));
  };
  for (uint32_t warp = 0; warp < kThreads; warp += kLanes) {
    if (!has(warp)) continue;
    int32_t a[16][32], b[8][32];
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const WarpProduct own = of(warp + lane);
      for (uint32_t i = 0; i < 16; ++i)
        a[lane / 4 + i / 4 % 2 * 8][lane % 4 * 4 + i % 4 + i / 8 * 16] = byte(own.a[i / 4], i % 4);
      for (uint32_t i = 0; i < 8; ++i)
        b[lane / 4][lane % 4 * 4 + i % 4 + i / 4 * 16] = byte(own.b[i / 4], i % 4);
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const WarpProduct own = of(warp + lane);
      for (uint32_t i = 0; i < 4; ++i) {
        const int32_t* const row = a[lane / 4 + i / 2 * 8];
        const int32_t* const column = b[lane % 4 * 2 + i % 2];
        for (uint32_t k = 0; k < 32; ++k) own.sum[i] += static_cast<uint32_t>(row[k] * column[k]);
      }
    }
  }
#endif
}

// The operands of a product are numbers of at most 2^14 in size, indexed by (place, k). They offer
//   begin(batch): the data shared by all numbers of a batch;
//   locate(begun, place) and at(k): as for operands of floats;
//   fetch(located, at): the word in memory at that place;
//   value(begun, word): the number that this word stands for.

/// The pixels of an image, rounded. `place` is an element of the patch, k runs over the places.
struct RoundedPixels {
  using Place = PatchColumns::Place;
  struct Begun {
    uint64_t image;
    Rounding rounding;
  };
  PatchColumns pixels;
  const PlaceRoundings* roundings;  // the roundings of each example

  PRIVGRAD_HD Begun begin(uint64_t batch) const { return {batch, roundings[batch].of_image}; }
  PRIVGRAD_HD Place locate(const Begun& begun, uint64_t place) const {
    return pixels.locate(begun.image, 0, place);
  }
  PRIVGRAD_HD Pixels::Part at(uint32_t k) const { return pixels.at(k); }
  PRIVGRAD_HD uint32_t fetch(const Place& place, const Pixels::Part& at) const {
    const Element pixel = pixels.find(place, at);
    return pixel.is_there ? bits_of(*pixel.value) : 0;
  }
  PRIVGRAD_HD int32_t value(const Begun& begun, uint32_t word) const {
    return rounded(float_of(word), begun.rounding);
  }
};

/// The errors of a convolution's outputs, rounded. `place` is a channel, k runs over the places.
struct RoundedErrors {
  using Place = const float*;
  struct Begun {
    const float* errors;
    Rounding rounding;
  };
  Convolution conv;
  const float* errors;
  const PlaceRoundings* roundings;

  PRIVGRAD_HD Begun begin(uint64_t batch) const {
    return {errors + batch * conv.outputs(), roundings[batch].of_delta};
  }
  PRIVGRAD_HD Place locate(const Begun& begun, uint64_t place) const {
    return begun.errors + place;
  }
  PRIVGRAD_HD uint64_t at(uint32_t k) const { return k * conv.channels; }
  PRIVGRAD_HD uint32_t fetch(Place place, uint64_t at) const { return bits_of(place[at]); }
  PRIVGRAD_HD int32_t value(const Begun& begun, uint32_t word) const {
    return rounded(float_of(word), begun.rounding);
  }
};

/// The destination of a convolution's sums: sums[example, channel, patch], in int32.
struct PlaceSums {
  int32_t* sums;
  PRIVGRAD_HD void store(const Extents& extents, uint64_t e, uint64_t p, uint64_t c, uint32_t high,
                         uint32_t middle, uint32_t low) const {
    sums[(e * extents.columns + c) * extents.rows + p] =
        static_cast<int32_t>((high << 16) + (middle << 8) + low);
  }
};

/// One operand of a dense layer for all examples; k runs over the examples.
struct WholeRows {
  using Place = const int16_t*;
  struct Begun {};
  const int16_t* values;
  uint64_t stride;
  const uint8_t* taken;  // null: all

  PRIVGRAD_HD Begun begin(uint64_t) const { return {}; }
  PRIVGRAD_HD Place locate(const Begun&, uint64_t place) const { return values + place; }
  PRIVGRAD_HD uint32_t at(uint32_t k) const { return k; }
  PRIVGRAD_HD uint32_t fetch(Place place, uint32_t k) const {
    return taken == nullptr || taken[k] != 0 ? static_cast<uint32_t>(place[k * stride]) : 0;
  }
  PRIVGRAD_HD int32_t value(const Begun&, uint32_t word) const {
    return static_cast<int32_t>(word);
  }
};

/// Adds the product to sum[unit, input], modulo 2^64.
struct CellSums {
  uint64_t* sum;
  PRIVGRAD_HD void store(const Extents& extents, uint64_t, uint64_t input, uint64_t unit,
                         uint32_t high, uint32_t middle, uint32_t low) const {
    const auto wide = [](uint32_t x) { return int64_t{static_cast<int32_t>(x)}; };
    add_to(sum + unit * extents.rows + input,
           static_cast<uint64_t>((wide(high) << 16) + (wide(middle) << 8) + wide(low)));
  }
};

/// Computes a product in pieces of kInner terms. Sums are cut into slices of `slice` terms; a block
/// adds the products of one slice of one tile. The caller ensures that sums fit in int32: by at
/// most 2^16 terms per slice, or by smaller factors (ConvStep::largest_factor()).
template <class A, class B, class Sink>
struct WholeProduct {
  static constexpr uint32_t kRows = 128, kColumns = 64, kInner = 32, kWords = kInner / 4;
  // A warp computes 32 x 32 sums, as 2 x 4 products of 16 x 8.
  static constexpr uint32_t kDown = 2, kAcross = 4, kWarpsAcross = 2;

  struct Digits {
    uint32_t high[kWords], low[kWords];
    uint32_t apart[4];  // padding, so that a warp reads from different banks
  };
  struct Shared {
    Digits a[2][kRows], b[2][kColumns];
    typename A::Place rows[kRows];
    typename B::Place columns[kColumns];
  };
  struct Fragments {
    uint32_t a[2][kDown][4], b[2][kAcross][2];  // [0]: high digits, [1]: low digits
    uint32_t high[kDown][kAcross][4], middle[kDown][kAcross][4], low[kDown][kAcross][4];
  };
  struct Fetched {
    uint32_t a[kRows * kWords / kThreads][4], b[kColumns * kWords / kThreads][4];
  };
  struct Where {
    uint64_t batch, top, left;
    uint32_t rows, columns, begin, end;  // begin to end: the slice
  };

  A a;
  B b;
  Sink sink;
  Extents extents;
  uint32_t slice;

  uint64_t blocks() const { return extents.batches * slices() * down() * across(); }

  PRIVGRAD_HD uint64_t slices() const { return (extents.inner + slice - 1) / slice; }
  PRIVGRAD_HD uint64_t down() const { return (extents.rows + kRows - 1) / kRows; }
  PRIVGRAD_HD uint64_t across() const { return (extents.columns + kColumns - 1) / kColumns; }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    const uint64_t tiles = down() * across(), tile = block % tiles;
    const uint64_t top = tile % down() * kRows, left = tile / down() * kColumns;
    const auto begin = static_cast<uint32_t>(block / tiles % slices()) * slice;
    const Where where{block / tiles / slices(),
                      top,
                      left,
                      static_cast<uint32_t>(smaller<uint64_t>(kRows, extents.rows - top)),
                      static_cast<uint32_t>(smaller<uint64_t>(kColumns, extents.columns - left)),
                      begin,
                      begin + smaller(slice, extents.inner - begin)};
    const auto of_a = a.begin(where.batch);
    const auto of_b = b.begin(where.batch);
    PerThread<Fragments> all;
    each_thread([&](uint32_t thread) {
      if (thread < where.rows) shared.rows[thread] = a.locate(of_a, top + thread);
      if (thread < where.columns) shared.columns[thread] = b.locate(of_b, left + thread);
      for_each_product(where, thread, [&](uint32_t i, uint32_t j) {
        PRIVGRAD_UNROLL for (uint32_t n = 0; n < 4; ++n) {
          all[thread].high[i][j][n] = all[thread].middle[i][j][n] = all[thread].low[i][j][n] = 0;
        }
      });
    });
    PerThread<Fetched> fetched;
    const auto fetch = [&](uint32_t first, uint32_t thread) {
      fetch_operand(a, shared.rows, where.rows, first, where.end, thread, fetched[thread].a);
      fetch_operand(b, shared.columns, where.columns, first, where.end, thread, fetched[thread].b);
    };
    const auto put = [&](uint32_t half, uint32_t thread) {
      put_digits(a, of_a, where.rows, thread, fetched[thread].a, shared.a[half]);
      put_digits(b, of_b, where.columns, thread, fetched[thread].b, shared.b[half]);
    };
    each_thread([&](uint32_t thread) {
      fetch(where.begin, thread);
      put(0, thread);
    });
    uint32_t now = 0;  // which half of shared memory has the current piece
    for (uint32_t first = where.begin; first < where.end; first += kInner, now ^= 1) {
      in_warps([&](uint32_t thread) {
        fetch(first + kInner, thread);
        read(where, thread, now, shared, all[thread]);
      });
      multiply(where, all);
      each_thread([&](uint32_t thread) { put(now ^ 1, thread); });
    }
    each_thread([&](uint32_t thread) {
      for_each_product(where, thread, [&](uint32_t i, uint32_t j) {
        PRIVGRAD_UNROLL for (uint32_t n = 0; n < 4; ++n) {
          const uint32_t row = row_of(thread, i) + thread % 32 / 4 + n / 2 * 8;
          const uint32_t column = column_of(thread, j) + thread % 4 * 2 + n % 2;
          if (row < where.rows && column < where.columns)
            sink.store(extents, where.batch, top + row, left + column, all[thread].high[i][j][n],
                       all[thread].middle[i][j][n], all[thread].low[i][j][n]);
        }
      });
    });
  }

 private:
  /// Returns the first row and column of product (i, j) of the thread's warp.
  PRIVGRAD_HD static uint32_t row_of(uint32_t thread, uint32_t i) {
    return (thread / 32 / kWarpsAcross * kDown + i) * 16;
  }
  PRIVGRAD_HD static uint32_t column_of(uint32_t thread, uint32_t j) {
    return (thread / 32 % kWarpsAcross * kAcross + j) * 8;
  }
  /// Calls body(i, j) for the products of the thread's warp that are not all outside the matrices.
  template <class Body>
  PRIVGRAD_HD static void for_each_product(const Where& where, uint32_t thread, const Body& body) {
    PRIVGRAD_UNROLL for (uint32_t i = 0; i < kDown; ++i) {
      PRIVGRAD_UNROLL for (uint32_t j = 0; j < kAcross; ++j) {
        if (row_of(thread, i) < where.rows && column_of(thread, j) < where.columns) body(i, j);
      }
    }
  }

  /// The eight threads of a group have the same four k, for different places.
  PRIVGRAD_HD static uint32_t place_of(uint32_t thread, uint32_t n) {
    return n * (kThreads / kWords) + thread / (8 * kWords) * 8 + thread % 8;
  }
  PRIVGRAD_HD static uint32_t word_of(uint32_t thread) { return thread / 8 % kWords; }

  /// Fetches a piece of the terms; outside the matrices, the word 0, which stands for the number 0.
  template <uint32_t kPlaces, class Operand>
  PRIVGRAD_HD static void fetch_operand(const Operand& operand,
                                        const typename Operand::Place* places, uint32_t count,
                                        uint32_t first, uint32_t end, uint32_t thread,
                                        uint32_t (&to)[kPlaces][4]) {
    PRIVGRAD_UNROLL for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t k = first + 4 * word_of(thread) + i;
      const auto at = operand.at(k);
      PRIVGRAD_UNROLL for (uint32_t n = 0; n < kPlaces; ++n) {
        const uint32_t place = place_of(thread, n);
        to[n][i] = k < end && place < count ? operand.fetch(places[place], at) : 0;
      }
    }
  }

  template <uint32_t kPlaces, class Operand>
  PRIVGRAD_HD static void put_digits(const Operand& operand, const typename Operand::Begun& begun,
                                     uint32_t count, uint32_t thread,
                                     const uint32_t (&from)[kPlaces][4], Digits* to) {
    PRIVGRAD_UNROLL for (uint32_t n = 0; n < kPlaces; ++n) {
      if (place_of(thread, n) >= count) continue;
      uint32_t high = 0, low = 0;
      PRIVGRAD_UNROLL for (uint32_t i = 0; i < 4; ++i) {
        const auto value = static_cast<uint32_t>(checked_factor(operand.value(begun, from[n][i])));
        low |= (value & 0xff) << (8 * i);
        high |= (((value + 0x80) >> 8) & 0xff) << (8 * i);
      }
      to[place_of(thread, n)].high[word_of(thread)] = high;
      to[place_of(thread, n)].low[word_of(thread)] = low;
    }
  }

  PRIVGRAD_HD static void read(const Where& where, uint32_t thread, uint32_t half,
                               const Shared& shared, Fragments& own) {
    const uint32_t group = thread % 32 / 4, word = thread % 4;
    PRIVGRAD_UNROLL for (uint32_t i = 0; i < kDown; ++i) {
      if (row_of(thread, i) >= where.rows) continue;
      PRIVGRAD_UNROLL for (uint32_t n = 0; n < 4; ++n) {
        const Digits& digits = shared.a[half][row_of(thread, i) + group + n % 2 * 8];
        own.a[0][i][n] = digits.high[word + n / 2 * 4];
        own.a[1][i][n] = digits.low[word + n / 2 * 4];
      }
    }
    PRIVGRAD_UNROLL for (uint32_t j = 0; j < kAcross; ++j) {
      if (column_of(thread, j) >= where.columns) continue;
      PRIVGRAD_UNROLL for (uint32_t n = 0; n < 2; ++n) {
        const Digits& digits = shared.b[half][column_of(thread, j) + group];
        own.b[0][j][n] = digits.high[word + n * 4];
        own.b[1][j][n] = digits.low[word + n * 4];
      }
    }
  }

  PRIVGRAD_HD static void multiply(const Where& where, PerThread<Fragments>& all) {
    PRIVGRAD_UNROLL for (uint32_t i = 0; i < kDown; ++i) {
      PRIVGRAD_UNROLL for (uint32_t j = 0; j < kAcross; ++j) {
        const auto has = [&](uint32_t thread) {
          return row_of(thread, i) < where.rows && column_of(thread, j) < where.columns;
        };
        const auto digits = [&](uint32_t left, uint32_t right, auto sum) {
          multiply_in_warps(has, [&](uint32_t thread) {
            Fragments& own = all[thread];
            return WarpProduct{own.a[left][i], own.b[right][j], (own.*sum)[i][j]};
          });
        };
        digits(0, 0, &Fragments::high);
        digits(0, 1, &Fragments::middle);
        digits(1, 0, &Fragments::middle);
        digits(1, 1, &Fragments::low);
      }
    }
  }
};

}  // namespace privgrad::cuda
