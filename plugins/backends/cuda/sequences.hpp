// Kernels for layers of sequences [length, width]: masks, positions, attention, and layers that
// combine places.
#pragma once

#include "convolutions.hpp"

// One thread computes each sum, in the order of the backend `cpu`.
namespace privgrad::cuda {

/// The token of an empty place (network.hpp, which compilers for devices do not read).
constexpr float kEmptyPlace = -1.0f;

struct MaskTokens {
  uint64_t count;
  const float* in;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const { out[i] = in[i] == kEmptyPlace ? 0.0f : 1.0f; }
};

/// x + W.
struct AddPositions {
  uint64_t count, size;  // size: the elements of an example
  const float *in, *own;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const { out[i] = in[i] + own[i % size]; }
};

/// The first `size` numbers of each example's `extent`.
struct TakeFirst {
  uint64_t count, size, extent;
  const float* from;
  float* to;
  uint64_t stride;  // stride: between the beginnings of two examples
  PRIVGRAD_HD void operator()(uint64_t i) const {
    to[i / size * stride + i % size] = from[i / size * extent + i % size];
  }
};

/// A row in front of each example's numbers.
struct PutInFront {
  uint64_t count, extent, width;  // extent: the numbers of an example, with the row
  const float *in, *row;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t at = i % extent;
    out[i] = at < width ? row[at] : in[i / extent * (extent - width) + at - width];
  }
};

/// Takes the rest of each sequence, without the row.
struct TakeBehind {
  uint64_t count, extent, width;
  const float* delta;
  float* below;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t size = extent - width;
    below[i] = delta[i / size * extent + width + i % size];
  }
};

/// The weights with which places are added up: equal for all places or for those of a mask, or 1
/// for a single place.
struct PlaceWeights {
  uint64_t places, width;
  uint64_t picked;  // the place, if is_pick and not is_last
  bool is_pick, is_last;
  const float* mask;  // [examples, places]; null: all

  PRIVGRAD_HD bool is_there(uint64_t example, uint64_t place) const {
    return mask == nullptr || mask[example * places + place] != 0.0f;
  }
  /// The only place that has a weight, if is_pick; `places` if there is none.
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
  uint64_t places, heads, key_heads, width;  // width: of a head
  bool causal;
  double rotary;
  float scale;
  const float* mask;  // [examples, places]; null: all are there

  uint64_t squares() const { return heads * places * places; }
  PRIVGRAD_HD uint64_t query_width() const { return heads * width; }
  PRIVGRAD_HD uint64_t key_width() const { return key_heads * width; }
  PRIVGRAD_HD uint64_t heads_of_key() const { return heads / key_heads; }
  PRIVGRAD_HD bool is_open(uint64_t example, uint64_t t, uint64_t s) const {
    return (!causal || s <= t) && (mask == nullptr || mask[example * places + s] != 0.0f);
  }
};

/// Turns the pairs of each head by the angles of their places, or back.
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

/// The sum of a row: lane j of sixteen adds the places j, j + 16, ..., and then halves of the lanes
/// are added.
struct PlaceLanes {
  float lane[16] = {};
  PRIVGRAD_HD void add(uint64_t place, float value) { lane[place % 16] += value; }
  PRIVGRAD_HD float sum() {
    for (uint32_t half = 8; half > 0; half /= 2) {
      for (uint32_t l = 0; l < half; ++l) lane[l] += lane[l + half];
    }
    return lane[0];
  }
};

/// Replaces the products of one query by its probabilities.
struct RowSoftmax {
  uint64_t count;  // [examples, heads, places]
  Heads of;
  float* rows;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t t = i % of.places, example = i / of.places / of.heads;
    float* row = rows + i * of.places;
    const uint64_t seen = of.causal ? t + 1 : of.places;
    float top = float_of(0xff800000u);  // -infinity
    for (uint64_t s = 0; s < seen; ++s) {
      row[s] = of.is_open(example, t, s) ? row[s] * of.scale : float_of(0xff800000u);
      top = row[s] > top ? row[s] : top;
    }
    PlaceLanes lanes;
    for (uint64_t s = 0; s < seen; ++s) {
      const float e = exp_of_negative(row[s] - top);
      row[s] = of.is_open(example, t, s) ? e : 0.0f;
      lanes.add(s, row[s]);
    }
    const float sum = lanes.sum();
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (uint64_t s = 0; s < seen; ++s) row[s] *= inverse;
    for (uint64_t s = seen; s < of.places; ++s) row[s] = 0.0f;
  }
};

/// Replaces the derivatives with respect to one query's probabilities by the derivatives with
/// respect to its products.
struct RowSoftmaxBackward {
  uint64_t count;  // [examples, heads, places]
  Heads of;
  const float* probabilities;
  float* slopes;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const float* p = probabilities + i * of.places;
    float* row = slopes + i * of.places;
    PlaceLanes lanes;
    for (uint64_t s = 0; s < of.places; ++s) lanes.add(s, p[s] * row[s]);
    const float mean = lanes.sum();
    for (uint64_t s = 0; s < of.places; ++s) row[s] = of.scale * (p[s] * (row[s] - mean));
  }
};

/// The second operand of the derivatives with respect to keys or values. Column: of a head; k: along
/// the queries of each head that reads the key, head by head.
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
