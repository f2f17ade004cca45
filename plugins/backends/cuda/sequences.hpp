// Kernels for layers of sequences [length, width]: masks, positions, attention, and layers that
// combine places.
#pragma once

#include "convolutions.hpp"

// Each sum is computed by one thread, in the order of the backend `cpu`.
namespace privgrad::cuda {

/// The token of an empty place (from network.hpp, which device compilers do not read).
constexpr float kEmptyPlace = -1.0f;

struct MaskTokens {
  uint64_t count;
  const float* in;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const { out[i] = in[i] == kEmptyPlace ? 0.0f : 1.0f; }
};

/// Adds the table of positions W to x.
struct AddPositions {
  uint64_t count, size;  // size: the elements of an example
  const float *in, *own;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const { out[i] = in[i] + own[i % size]; }
};

/// Takes the first `size` numbers of each example's `extent`.
struct TakeFirst {
  uint64_t count, size, extent;
  const float* from;
  float* to;
  uint64_t stride;  // stride: the distance between two examples
  PRIVGRAD_HD void operator()(uint64_t i) const {
    to[i / size * stride + i % size] = from[i / size * extent + i % size];
  }
};

/// Puts a row in front of each example's numbers.
struct PutInFront {
  uint64_t count, extent, width;  // extent: numbers of an example, including the row
  const float *in, *row;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t at = i % extent;
    out[i] = at < width ? row[at] : in[i / extent * (extent - width) + at - width];
  }
};

/// Takes each sequence without the row in front.
struct TakeBehind {
  uint64_t count, extent, width;
  const float* delta;
  float* below;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t size = extent - width;
    below[i] = delta[i / size * extent + width + i % size];
  }
};

/// The weights with which places are added up: equal weights for all places or for all places in a
/// mask, or a weight of 1 for a single place.
struct PlaceWeights {
  uint64_t places, width;
  uint64_t picked;  // the single place, if is_pick and not is_last
  bool is_pick, is_last;
  const float* mask;  // [examples, places]; null: all

  PRIVGRAD_HD bool is_there(uint64_t example, uint64_t place) const {
    return mask == nullptr || mask[example * places + place] != 0.0f;
  }
  /// If is_pick, returns the only place that has a weight; `places` if no place has a weight.
  PRIVGRAD_HD uint64_t place_of(uint64_t example) const {
    if (!is_last) return picked;
    for (uint64_t place = places; place-- > 0;) {
      if (is_there(example, place)) return place;
    }
    return places;
  }
  PRIVGRAD_HD float mean_weight(uint64_t example) const {
    uint64_t members = 0;
    for (uint64_t place = 0; place < places; ++place) members += is_there(example, place) ? 1 : 0;
    return 1.0f / static_cast<float>(members > 0 ? members : 1);
  }
};

struct AddPlaces {
  uint64_t count;  // [examples, width]
  PlaceWeights of;
  const float* in;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t example = i / of.width, column = i % of.width;
    const float* own = in + example * of.places * of.width + column;
    float sum = 0.0f;
    if (of.is_pick) {
      const uint64_t place = of.place_of(example);
      if (place < of.places) sum += 1.0f * own[place * of.width];
    } else {
      const float weight = of.mean_weight(example);
      for (uint64_t place = 0; place < of.places; ++place) {
        if (of.is_there(example, place)) sum += weight * own[place * of.width];
      }
    }
    out[i] = sum;
  }
};

struct SpreadPlaces {
  uint64_t count;  // [examples, places, width]
  PlaceWeights of;
  const float* delta;
  float* below;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t example = i / (of.places * of.width), place = i / of.width % of.places;
    const float error = delta[example * of.width + i % of.width];
    float sum = 0.0f;
    if (of.is_pick) {
      if (place == of.place_of(example)) sum += 1.0f * error;
    } else if (of.is_there(example, place)) {
      sum += of.mean_weight(example) * error;
    }
    below[i] = sum;
  }
};

// --- Attention.

struct Heads {
  uint64_t places, heads, key_heads, width;  // width: the width of a head
  bool causal;
  double rotary;
  float scale;
  const float* mask;  // [examples, places]; null: none is empty

  uint64_t squares() const { return heads * places * places; }
  PRIVGRAD_HD uint64_t query_width() const { return heads * width; }
  PRIVGRAD_HD uint64_t key_width() const { return key_heads * width; }
  PRIVGRAD_HD uint64_t heads_of_key() const { return heads / key_heads; }
  PRIVGRAD_HD bool is_open(uint64_t example, uint64_t t, uint64_t s) const {
    return (!causal || s <= t) && (mask == nullptr || mask[example * places + s] != 0.0f);
  }
};

/// Rotates each head's pairs by the angles of their places, or rotates them back.
struct TurnPairs {
  uint64_t count;  // [examples, places, heads, width / 2]
  Heads of;
  uint64_t heads;
  bool is_back;
  const float* from;
  float* to;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t pairs = of.width / 2, pair = i % pairs;
    const uint64_t place = i / pairs / heads % of.places;
    const uint64_t first = i / pairs * of.width + pair, second = first + pairs;
    const double power = static_cast<double>(pair) / static_cast<double>(pairs);
    const Rotation rotation =
        rotation_by(static_cast<double>(place) * exp_fixed(-power * log1p_fixed(of.rotary - 1.0)));
    const auto cosine = static_cast<float>(rotation.cosine);
    const auto sine = static_cast<float>(is_back ? -rotation.sine : rotation.sine);
    const float x = from[first], y = from[second];
    to[first] = x * cosine - y * sine;
    to[second] = y * cosine + x * sine;
  }
};

/// Replaces the products of one query by its probabilities.
struct RowSoftmax {
  struct Shared {
    Lanes<float> tops, sums;
  };

  uint64_t count;  // [examples, heads, places]
  Heads of;
  float* rows;

  uint64_t blocks() const { return blocks_of_rows(count); }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    each_thread([&](uint32_t thread) {
      float top = float_of(0xff800000u);  // -infinity
      each_seen(block, thread, [&](uint64_t example, uint64_t t, uint64_t s, float& number) {
        number = of.is_open(example, t, s) ? number * of.scale : float_of(0xff800000u);
        top = number > top ? number : top;
      });
      shared.tops.of(thread) = top;
    });
    each_thread([&](uint32_t thread) {
      const float top = shared.tops.largest(thread);
      float sum = 0.0f;
      each_seen(block, thread, [&](uint64_t example, uint64_t t, uint64_t s, float& number) {
        const float e = exp_of_negative(number - top);
        number = of.is_open(example, t, s) ? e : 0.0f;
        sum += number;
      });
      shared.sums.of(thread) = sum;
    });
    each_thread([&](uint32_t thread) {
      const float sum = shared.sums.sum(thread);
      const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
      each_seen(block, thread,
                [&](uint64_t, uint64_t, uint64_t, float& number) { number *= inverse; });
      const uint64_t i = row_of_thread(block, thread);
      for (uint64_t s = thread % kRowLanes; i < count && s < of.places; s += kRowLanes) {
        if (of.causal && s > i % of.places) rows[i * of.places + s] = 0.0f;
      }
    });
  }

 private:
  /// Calls body(example, query, place, number) for each place of the lane that the query may see.
  template <class Body>
  PRIVGRAD_HD void each_seen(uint64_t block, uint32_t thread, const Body& body) const {
    const uint64_t i = row_of_thread(block, thread);
    if (i >= count) return;
    const uint64_t t = i % of.places, example = i / of.places / of.heads;
    const uint64_t seen = of.causal ? t + 1 : of.places;
    for (uint64_t s = thread % kRowLanes; s < seen; s += kRowLanes)
      body(example, t, s, rows[i * of.places + s]);
  }
};

/// Replaces the derivatives with respect to one query's probabilities by the derivatives with
/// respect to its products.
struct RowSoftmaxBackward {
  using Shared = Lanes<float>;

  uint64_t count;  // [examples, heads, places]
  Heads of;
  const float* probabilities;
  float* slopes;

  uint64_t blocks() const { return blocks_of_rows(count); }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      if (i >= count) return;
      float sum = 0.0f;
      for (uint64_t s = thread % kRowLanes; s < of.places; s += kRowLanes)
        sum += probabilities[i * of.places + s] * slopes[i * of.places + s];
      shared.of(thread) = sum;
    });
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      if (i >= count) return;
      const float mean = shared.sum(thread);
      for (uint64_t s = thread % kRowLanes; s < of.places; s += kRowLanes) {
        float& slope = slopes[i * of.places + s];
        slope = of.scale * (probabilities[i * of.places + s] * (slope - mean));
      }
    });
  }
};

/// The second operand of the derivatives with respect to keys or values. Each column is one column
/// of a head; k runs over the queries of every head that reads the key, head by head.
struct ReadingQueries {
  static constexpr bool kByInner = false;
  using Place = const float*;
  Heads of;
  Divisor by_places;
  const float* queries;

  PRIVGRAD_HD Place locate(uint64_t batch, uint32_t, uint64_t column) const {
    return queries + batch / of.key_heads * of.places * of.query_width() +
           batch % of.key_heads * of.heads_of_key() * of.width + column;
  }
  PRIVGRAD_HD uint64_t at(uint32_t k) const {
    const uint32_t head = by_places.quotient(k);
    return (k - head * by_places.value) * of.query_width() + head * of.width;
  }
  PRIVGRAD_HD Element find(Place place, uint64_t at) const { return {place + at}; }
};

}  // namespace privgrad::cuda
