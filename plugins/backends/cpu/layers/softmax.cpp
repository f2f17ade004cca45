#include "layers/softmax.hpp"

#include <array>
#include <limits>

#include "../../elementary.hpp"
#include "instruction_loops.hpp"

namespace privgrad::cpu {
namespace {

using namespace elementary;

/// The number of partial sums of a sum over places: lane j adds up the places j, j + 16, ... in
/// order, and then the lanes are added by halves.
constexpr std::size_t kLanes = 16;

using Lanes = std::array<float, kLanes>;

PRIVGRAD_INLINE float sum_of(Lanes& lanes) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

/// Calls body(lane, place) for each place.
template <class Body>
PRIVGRAD_INLINE void for_each_lane(std::size_t places, const Body& body) {
  std::size_t first = 0;
  for (; first + kLanes <= places; first += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) body(lane, first + lane);
  }
  for (std::size_t lane = 0; first + lane < places; ++lane) body(lane, first + lane);
}

PRIVGRAD_INLINE float largest_of(const Lanes& lanes) {
  float top = lanes[0];
  for (const float one : lanes) top = one > top ? one : top;
  return top;
}

PRIVGRAD_INLINE void softmax_body(const float* open, std::size_t places, float scale, float* row) {
  Lanes tops;
  tops.fill(-std::numeric_limits<float>::infinity());
  for_each_lane(places, [&](std::size_t lane, std::size_t s) {
    row[s] = open[s] != 0.0f ? row[s] * scale : -std::numeric_limits<float>::infinity();
    tops[lane] = row[s] > tops[lane] ? row[s] : tops[lane];
  });
  const float top = largest_of(tops);
  Lanes lanes{};
  for_each_lane(places, [&](std::size_t lane, std::size_t s) {
    const float e = exp_of_negative(row[s] - top);
    row[s] = open[s] != 0.0f ? e : 0.0f;
    lanes[lane] += row[s];
  });
  const float sum = sum_of(lanes);
  const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
  for (std::size_t s = 0; s < places; ++s) row[s] *= inverse;
}

PRIVGRAD_INLINE void softmax_backward_body(const float* probabilities, std::size_t places,
                                           float scale, float* row) {
  Lanes lanes{};
  for_each_lane(places,
                [&](std::size_t lane, std::size_t s) { lanes[lane] += probabilities[s] * row[s]; });
  const float mean = sum_of(lanes);
  for (std::size_t s = 0; s < places; ++s) row[s] = scale * (probabilities[s] * (row[s] - mean));
}

PRIVGRAD_INLINE void scaled_softmax_body(const float* row, std::size_t count, float factor,
                                         float* out) {
  Lanes tops;
  tops.fill(-std::numeric_limits<float>::infinity());
  for_each_lane(count, [&](std::size_t lane, std::size_t i) {
    tops[lane] = row[i] > tops[lane] ? row[i] : tops[lane];
  });
  const float top = largest_of(tops);
  Lanes lanes{};
  for_each_lane(count, [&](std::size_t lane, std::size_t i) {
    out[i] = exp_of_negative(row[i] - top);
    lanes[lane] += out[i];
  });
  const float scale = factor / sum_of(lanes);
  for (std::size_t i = 0; i < count; ++i) out[i] *= scale;
}

}  // namespace

PRIVGRAD_LOOP(void, softmax, (const float* open, std::size_t places, float scale, float* row),
              (open, places, scale, row))
PRIVGRAD_LOOP(void, softmax_backward,
              (const float* probabilities, std::size_t places, float scale, float* row),
              (probabilities, places, scale, row))
PRIVGRAD_LOOP(void, scaled_softmax, (const float* row, std::size_t count, float factor, float* out),
              (row, count, factor, out))

}  // namespace privgrad::cpu
