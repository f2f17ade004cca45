// Elementary functions for kernels, with the same bits as those of the backend `cpu`.
#pragma once

#include "device_code.hpp"

// The functions consist of additions, multiplications and divisions in the same fixed order as in
// the backend `cpu` (tests/cuda/programs_test.cpp compares them), which has their error bounds:
// plugins/backends/cpu/elementary.hpp and loops.cpp.
namespace privgrad::cuda {

constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// e^x.
PRIVGRAD_HD double exp_fixed(double x) {
  if (x != x) return x;
  if (x > 709.8) return double_of(0x7ff0000000000000u);
  if (x < -745.2) return 0.0;
  constexpr double kRound = 0x1.8p52;
  const double n = (x * 0x1.71547652b82fep0 + kRound) - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = 1.0 + (r + r * r * p);
  const auto whole = static_cast<int64_t>(n);
  const int64_t half = whole / 2;
  return p * double_power_of_two(half) * double_power_of_two(whole - half);
}

/// ln(1 + x) for x >= 0; NaN below and for NaN.
PRIVGRAD_HD double log1p_fixed(double x) {
  if (!(x >= 0.0)) return double_of(kDoubleNan);
  if (!is_finite(x)) return x;
  double f = x, missing = 0.0;
  int64_t k = 0;
  if (x > 0x1.a8p-2) {
    const double sum = 1.0 + x;
    missing = (x < 1.0 ? x - (sum - 1.0) : 1.0 - (sum - x)) / sum;
    const uint64_t bits = bits_of(sum);
    k = static_cast<int64_t>(bits >> 52) - 1023;
    double mantissa = double_of((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (mantissa > 0x1.6a09e667f3bcdp0) {
      mantissa *= 0.5;
      ++k;
    }
    f = mantissa - 1.0;
  }
  const double s = f / (2.0 + f);
  const double z = s * s;
  double rest = 2.0 / 21.0;
  rest = rest * z + 2.0 / 19.0;
  rest = rest * z + 2.0 / 17.0;
  rest = rest * z + 2.0 / 15.0;
  rest = rest * z + 2.0 / 13.0;
  rest = rest * z + 2.0 / 11.0;
  rest = rest * z + 2.0 / 9.0;
  rest = rest * z + 2.0 / 7.0;
  rest = rest * z + 2.0 / 5.0;
  rest = rest * z + 2.0 / 3.0;
  rest *= z;
  const auto power = static_cast<double>(k);
  return power * kLn2High + (f - (s * (f - rest) - (power * kLn2Low + missing)));
}

/// e^x for x <= 0 in float32; NaN for NaN.
PRIVGRAD_HD float exp_of_negative(float x) {
  constexpr float kRound = 0x1.8p23f;
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
  const uint32_t exponent = (bits_of(shifted) + 127u) << 23;
  return p * float_of(exponent);
}

PRIVGRAD_HD float tanh_fixed(float x) {
  const float size = size_of(x);
  const float z = x * x;
  float p = 0x1.22c3dap-9f;
  p = p * z - 0x1.0f312ap-7f;
  p = p * z + 0x1.644fd6p-6f;
  p = p * z - 0x1.ba031ap-5f;
  p = p * z + 0x1.1110dap-3f;
  p = p * z - 0x1.555556p-2f;
  const float near = x + x * (z * p);
  const float e = exp_of_negative(-2.0f * size);
  const float far =
      float_of((bits_of((1.0f - e) / (1.0f + e)) & 0x7fffffffu) | (bits_of(x) & 0x80000000u));
  return size < 0.65f ? near : far;
}

PRIVGRAD_HD float sigmoid_fixed(float x) {
  const float e = exp_of_negative(-size_of(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

}  // namespace privgrad::cuda
