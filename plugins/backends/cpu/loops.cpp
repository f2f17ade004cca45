#include "loops.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "instruction_loops.hpp"

namespace privgrad::cpu {
namespace {

PRIVGRAD_INLINE double sum_of_squares_body(const float* values, std::size_t count) {
  typedef double Lanes __attribute__((vector_size(32)));
  typedef float Floats __attribute__((vector_size(16)));
  constexpr std::size_t kVectors = 4;
  Lanes lanes[kVectors] = {};
  std::size_t i = 0;
  for (; i + 4 * kVectors <= count; i += 4 * kVectors) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      Floats four;
      std::memcpy(&four, values + i + 4 * v, sizeof four);
      const Lanes x = __builtin_convertvector(four, Lanes);
      lanes[v] += x * x;
    }
  }
  double sum = 0.0;
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  const Lanes all = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  return sum + ((all[0] + all[1]) + (all[2] + all[3]));
}

/// Without their signs, floats have the same order as their bits read as integers.
PRIVGRAD_INLINE float largest_size_body(const float* values, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t size = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffu;
    largest = size > largest ? size : largest;
  }
  return std::bit_cast<float>(largest);
}

PRIVGRAD_INLINE void add_body(const float* values, std::size_t count, float* sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
}

PRIVGRAD_INLINE void add_scaled_body(float factor, const float* values, std::size_t count,
                                     float* sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += factor * values[i];
}

PRIVGRAD_INLINE void keep_larger(const float* __restrict values, std::size_t count,
                                 float* __restrict top) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool larger = (values[i] > top[i]) | std::isnan(values[i]);
    top[i] = larger ? values[i] : top[i];
  }
}

PRIVGRAD_INLINE void largest_in_windows_body(const Windows& windows, const float* corner,
                                             float* out) {
  const std::size_t depth = windows.depth;
  for (std::size_t column = 0; column < windows.columns; ++column) {
    copy_short(corner + windows.offsets[0], depth, out);
    for (std::size_t place = 1; place < windows.places; ++place) {
      keep_larger(corner + windows.offsets[place], depth, out);
    }
    corner += windows.step;
    out += depth;
  }
}

PRIVGRAD_INLINE void hand_down(const float* __restrict values, const float* __restrict top,
                               const float* __restrict delta, std::size_t count,
                               float* __restrict below, int* __restrict taken) {
  for (std::size_t i = 0; i < count; ++i) {
    const int hit = (values[i] == top[i]) & (taken[i] == 0);
    below[i] += hit != 0 ? delta[i] : 0.0f;
    taken[i] |= hit;
  }
}

PRIVGRAD_INLINE void hand_down_windows_body(const Windows& windows, const float* corner,
                                            const float* out, const float* delta, float* below,
                                            int* taken) {
  const std::size_t depth = windows.depth;
  for (std::size_t column = 0; column < windows.columns; ++column) {
    for (std::size_t i = 0; i < depth; ++i) taken[i] = 0;
    for (std::size_t place = 0; place < windows.places; ++place) {
      const std::size_t offset = windows.offsets[place];
      hand_down(corner + offset, out, delta, depth, below + offset, taken);
    }
    corner += windows.step;
    below += windows.step;
    out += depth;
    delta += depth;
  }
}

}  // namespace

PRIVGRAD_LOOP(double, sum_of_squares, (const float* values, std::size_t count), (values, count))
PRIVGRAD_LOOP(float, largest_size, (const float* values, std::size_t count), (values, count))
PRIVGRAD_LOOP(void, add, (const float* values, std::size_t count, float* sum), (values, count, sum))
PRIVGRAD_LOOP(void, add_scaled, (float factor, const float* values, std::size_t count, float* sum),
              (factor, values, count, sum))
PRIVGRAD_LOOP(void, largest_in_windows, (const Windows& windows, const float* corner, float* out),
              (windows, corner, out))
PRIVGRAD_LOOP(void, hand_down_windows,
              (const Windows& windows, const float* corner, const float* out, const float* delta,
               float* below, int* taken),
              (windows, corner, out, delta, below, taken))

}  // namespace privgrad::cpu
