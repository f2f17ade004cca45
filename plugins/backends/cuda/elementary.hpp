// Elementary functions for kernels, with the same bits as those of the backend `cpu`.
#pragma once

#include "device_code.hpp"

// The functions consist of additions, multiplications and divisions in the same fixed order as in
// the backend `cpu` (tests/cuda/programs_test.cpp compares them), where the error bounds are
// stated: plugins/backends/cpu/elementary.hpp.
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

}  // namespace privgrad::cuda
