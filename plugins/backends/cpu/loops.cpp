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

/// As whole numbers, floats without a sign are in their order.
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

PRIVGRAD_INLINE void relu_body(const float* in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = in[i] <= 0.0f ? 0.0f : in[i];
}

PRIVGRAD_INLINE void relu_backward_body(const float* y, std::size_t count, float* delta) {
  for (std::size_t i = 0; i < count; ++i) delta[i] = y[i] == 0.0f ? 0.0f : delta[i];
}

PRIVGRAD_INLINE void keep_larger(const float* __restrict values, std::size_t count,
                                 float* __restrict top) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool larger = (values[i] > top[i]) | (values[i] != values[i]);
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

/// e^x for x <= 0, to about one unit in the last place; e^-87 (1.6e-38) below -87; NaN for NaN.
///
/// x = n ln 2 + r with |r| <= ln(2) / 2, ln 2 in two parts so that r keeps its digits; e^r by a
/// Chebyshev fit with a relative error of 8e-9.
PRIVGRAD_INLINE float exp_of_negative(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to whole numbers
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 0x1.715476p+0f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
  float p = 0x1.6d4926p-10f;
  p = p * r + 0x1.121072p-7f;
  p = p * r + 0x1.5554e4p-5f;
  p = p * r + 0x1.5554d8p-3f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  // 2^n: its exponent from the low bits of `shifted`.
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;
  return p * std::bit_cast<float>(exponent);
}

PRIVGRAD_INLINE void tanh_body(const float* in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const float x = in[i];
    const float size = std::abs(x);
    // Near 0 a Chebyshev fit of (tanh(x) / x - 1) / x^2, with a relative error below 1e-8 of tanh.
    const float z = x * x;
    float p = 0x1.22c3dap-9f;
    p = p * z - 0x1.0f312ap-7f;
    p = p * z + 0x1.644fd6p-6f;
    p = p * z - 0x1.ba031ap-5f;
    p = p * z + 0x1.1110dap-3f;
    p = p * z - 0x1.555556p-2f;
    const float near = x + x * (z * p);
    const float e = exp_of_negative(-2.0f * size);
    const float far = std::copysign((1.0f - e) / (1.0f + e), x);
    out[i] = size < 0.65f ? near : far;
  }
}

PRIVGRAD_INLINE void sigmoid_body(const float* in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const float e = exp_of_negative(-std::abs(in[i]));
    out[i] = (in[i] < 0.0f ? e : 1.0f) / (1.0f + e);
  }
}

PRIVGRAD_INLINE void tanh_backward_body(const float* y, std::size_t count, float* delta) {
  for (std::size_t i = 0; i < count; ++i) delta[i] *= (1.0f - y[i]) * (1.0f + y[i]);
}

PRIVGRAD_INLINE void sigmoid_backward_body(const float* y, std::size_t count, float* delta) {
  for (std::size_t i = 0; i < count; ++i) delta[i] *= y[i] * (1.0f - y[i]);
}

}  // namespace

PRIVGRAD_LOOP(double, sum_of_squares, (const float* values, std::size_t count), (values, count))
PRIVGRAD_LOOP(float, largest_size, (const float* values, std::size_t count), (values, count))
PRIVGRAD_LOOP(void, add, (const float* values, std::size_t count, float* sum), (values, count, sum))
PRIVGRAD_LOOP(void, add_scaled, (float factor, const float* values, std::size_t count, float* sum),
              (factor, values, count, sum))
PRIVGRAD_LOOP(void, relu, (const float* in, std::size_t count, float* out), (in, count, out))
PRIVGRAD_LOOP(void, relu_backward, (const float* y, std::size_t count, float* delta),
              (y, count, delta))
PRIVGRAD_LOOP(void, tanh, (const float* in, std::size_t count, float* out), (in, count, out))
PRIVGRAD_LOOP(void, tanh_backward, (const float* y, std::size_t count, float* delta),
              (y, count, delta))
PRIVGRAD_LOOP(void, sigmoid, (const float* in, std::size_t count, float* out), (in, count, out))
PRIVGRAD_LOOP(void, sigmoid_backward, (const float* y, std::size_t count, float* delta),
              (y, count, delta))
PRIVGRAD_LOOP(void, largest_in_windows, (const Windows& windows, const float* corner, float* out),
              (windows, corner, out))
PRIVGRAD_LOOP(void, hand_down_windows,
              (const Windows& windows, const float* corner, const float* out, const float* delta,
               float* below, int* taken),
              (windows, corner, out, delta, below, taken))

}  // namespace privgrad::cpu
