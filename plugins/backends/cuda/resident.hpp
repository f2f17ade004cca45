// Kernels for steps that stay on the device: the trust base's spot checks, and optimizer rules.
#pragma once

#include "cells.hpp"

// The noise of such steps is in noise.hpp.
namespace privgrad::cuda {

// --- The factors of each example's cells at some places: left * right is the cell that the
// kernels of sums (cells.hpp) add.

struct Factors {
  int32_t left, right;
};

/// Computes the factors of one layer at those places that the layer contains, and leaves the other
/// places unchanged.
struct FactorsAt {
  uint64_t places, offset, size;  // the layer has `size` parameters from `offset` on
  const uint64_t* place;          // [places]
  Factors* out;                   // [rows, places]

  PRIVGRAD_HD uint64_t row(uint64_t i) const { return i / places; }
  /// \returns whether the layer contains place i; own: the index among its parameters.
  PRIVGRAD_HD bool find(uint64_t i, uint64_t& own) const {
    const uint64_t at = place[i % places];
    own = at - offset;
    return at >= offset && own < size;
  }
};

struct DenseFactors {
  uint64_t count;  // rows * places
  FactorsAt at;
  uint64_t inputs, units;
  const int16_t *whole_units, *whole_inputs;
  const float* delta;
  const DenseRoundings* roundings;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t row = at.row(i);
    uint64_t own = 0;
    if (!at.find(i, own)) return;
    if (own < inputs * units) {
      at.out[i] = {whole_units[row * units + own / inputs],
                   whole_inputs[row * inputs + own % inputs]};
    } else {
      const uint64_t unit = own - inputs * units;
      at.out[i] = {rounded(delta[row * units + unit], roundings[row].of_biases), 1};
    }
  }
};

struct RowFactors {
  uint64_t count;
  FactorsAt at;
  uint64_t groups, group;
  const Share* shares;
  const float* kept;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t row = at.row(i);
    uint64_t own = 0;
    if (!at.find(i, own)) return;
    const double scale = shares[row * groups + group].scale * (1.0 - kRoundingMargin);
    at.out[i] = {scale == 0.0 ? 0 : truncated(scale, kept[row * at.size + own]), 1};
  }
};

struct WholeFactors {
  uint64_t count;
  FactorsAt at;
  uint64_t groups, group;
  const Share* shares;
  const int16_t* whole;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t row = at.row(i);
    uint64_t own = 0;
    if (!at.find(i, own)) return;
    const Share& share = shares[row * groups + group];
    at.out[i] = {
        share.scale == 0.0 ? 0 : truncated(place_factor(share), whole[row * at.size + own]), 1};
  }
};

struct TokenFactors {
  uint64_t count;
  FactorsAt at;
  uint64_t groups, group;
  Table table;
  const Share* shares;
  const float *in, *delta;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t row = at.row(i);
    uint64_t own = 0;
    if (!at.find(i, own)) return;
    at.out[i] = {0, 1};
    const double scale = shares[row * groups + group].scale * (1.0 - kRoundingMargin);
    if (scale == 0.0) return;
    const float* tokens = in + row * table.length;
    for (uint64_t t = 0; t < table.length; ++t) {
      if (!table.is_first(tokens, t) || static_cast<uint64_t>(tokens[t]) != own / table.width)
        continue;
      const float* errors = delta + row * table.length * table.width;
      at.out[i] = {truncated(scale, table.gradient(tokens, errors, t, own % table.width)), 1};
    }
  }
};

// --- Gathering numbers.

/// Copies a table's rows for the examples of a pass.
struct GatherRows {
  uint64_t count, size;  // count: [rows, size]
  const uint32_t* row;   // [rows]
  const float* from;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    out[i] = from[uint64_t{row[i / size]} * size + i % size];
  }
};

/// Computes the checksums of a pass's examples: privgrad::example_checksum().
struct ExampleChecksums {
  struct Shared {
    Lanes<uint64_t> parts;
  };
  uint64_t rows, size;
  const float *features, *targets;  // [rows, size], [rows]
  uint64_t* out;                    // [rows]

  uint64_t blocks() const { return blocks_of_rows(rows); }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    each_thread([&](uint32_t thread) {
      const uint64_t row = row_of_thread(block, thread);
      uint64_t sum = 0;
      if (row < rows) {
        for (uint64_t i = thread % kRowLanes; i < size; i += kRowLanes)
          sum += term(i, features[row * size + i]);
      }
      shared.parts.of(thread) = sum;
    });
    each_thread([&](uint32_t thread) {
      const uint64_t row = row_of_thread(block, thread);
      if (thread % kRowLanes == 0 && row < rows)
        out[row] = shared.parts.sum(thread) + term(size, targets[row]);
    });
  }

 private:
  PRIVGRAD_HD static uint64_t term(uint64_t place, float number) {
    uint64_t x = place << 32 | bits_of(number);
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
};

template <class Number>
struct Gather {
  uint64_t count;
  const uint64_t* place;
  const Number* from;
  Number* out;
  PRIVGRAD_HD void operator()(uint64_t i) const { out[i] = from[place[i]]; }
};

struct CopyFloats {
  uint64_t count;
  const float* from;
  float* to;
  PRIVGRAD_HD void operator()(uint64_t i) const { to[i] = from[i]; }
};

// --- The optimizer's rule (privgrad/step_rule.hpp defines it), in the same order.

enum class RuleCode : uint32_t { descent, momentum, adam };

/// The flags of a chunk that contains numbers that are not finite.
constexpr uint8_t kBadGradient = 1, kBadParameter = 2;

struct MoveParameters {
  static constexpr uint32_t kChunk = 1024;
  struct Shared {
    uint8_t bad[kThreads];
  };

  uint64_t count;
  RuleCode rule;
  double rate, keep, take, keep_squares, take_squares, root_scale, epsilon;
  double width;  // the width of a released cell
  const int64_t* released;
  float *parameters, *previous;  // previous: out, the parameters before the step
  float *first, *second;         // vectors of the state; null if the rule has none
  uint8_t* bad;                  // [blocks()]

  uint64_t blocks() const { return (count + kChunk - 1) / kChunk; }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    each_thread([&](uint32_t thread) {
      uint8_t own = 0;
      for (uint32_t j = thread; j < kChunk; j += kThreads) {
        const uint64_t i = block * kChunk + j;
        if (i < count) own |= move(i);
      }
      shared.bad[thread] = own;
    });
    each_thread([&](uint32_t thread) {
      if (thread != 0) return;
      uint8_t any = 0;
      for (uint32_t i = 0; i < kThreads; ++i) any |= shared.bad[i];
      bad[block] = any;
    });
  }

 private:
  PRIVGRAD_HD uint8_t move(uint64_t i) const {
    const auto g = static_cast<float>(static_cast<double>(released[i]) * width);
    const float w = parameters[i];
    previous[i] = w;
    const float moved = rule == RuleCode::descent    ? w - static_cast<float>(rate) * g
                        : rule == RuleCode::momentum ? by_momentum(i, w, g)
                                                     : by_adam(i, w, g);
    parameters[i] = moved;
    uint8_t found = 0;
    if (!is_finite(g)) found |= kBadGradient;
    if (!is_finite(moved)) found |= kBadParameter;
    return found;
  }

  PRIVGRAD_HD float by_momentum(uint64_t i, float w, float g) const {
    const auto v =
        static_cast<float>(keep * static_cast<double>(first[i]) + take * static_cast<double>(g));
    first[i] = v;
    return static_cast<float>(static_cast<double>(w) - rate * static_cast<double>(v));
  }

  PRIVGRAD_HD float by_adam(uint64_t i, float w, float g) const {
    const auto x = static_cast<double>(g);
    const auto root = static_cast<double>(second[i]);
    const auto m = static_cast<float>(keep * static_cast<double>(first[i]) + take * x);
    const auto r =
        static_cast<float>(square_root(keep_squares * (root * root) + take_squares * (x * x)));
    first[i] = m;
    second[i] = r;
    return static_cast<float>(static_cast<double>(w) -
                              rate * static_cast<double>(m) /
                                  (root_scale * static_cast<double>(r) + epsilon));
  }
};

}  // namespace privgrad::cuda
