// Elementary functions and activations with the same bits on every processor, of whatever kind, and
// with every C library.
#pragma once

#include <stdint.h>

// The functions consist of additions, multiplications and divisions in a fixed order, without fused
// multiply-adds. nvcc compiles them for GPUs too, which have no C library.
#ifdef __CUDACC__
#define PRIVGRAD_ANYWHERE __host__ __device__ __forceinline__
#else
#define PRIVGRAD_ANYWHERE [[gnu::always_inline]] inline
#endif

namespace privgrad::elementary {

PRIVGRAD_ANYWHERE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
PRIVGRAD_ANYWHERE uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }
PRIVGRAD_ANYWHERE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
PRIVGRAD_ANYWHERE double double_of(uint64_t bits) { return __builtin_bit_cast(double, bits); }

PRIVGRAD_ANYWHERE float size_of(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
PRIVGRAD_ANYWHERE double size_of(double x) { return double_of(bits_of(x) & 0x7fffffffffffffffu); }
PRIVGRAD_ANYWHERE bool is_finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }
PRIVGRAD_ANYWHERE bool is_finite(double x) {
  return (bits_of(x) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}

constexpr uint32_t kFloatNan = 0x7fc00000u;
constexpr uint64_t kDoubleNan = 0x7ff8000000000000u;
constexpr uint64_t kDoubleInfinity = 0x7ff0000000000000u;

/// 2^exponent, for the exponents of normal numbers: -126 to 127 and -1022 to 1023.
PRIVGRAD_ANYWHERE float float_power_of_two(int32_t exponent) {
  return float_of(static_cast<uint32_t>(exponent + 127) << 23);
}
PRIVGRAD_ANYWHERE double double_power_of_two(int64_t exponent) {
  return double_of(static_cast<uint64_t>(exponent + 1023) << 52);
}

/// ((first x + next) x + next) ..., Horner's scheme.
template <class Number, class... More>
PRIVGRAD_ANYWHERE Number polynomial(Number x, Number first, More... more) {
  Number sum = first;
  ((sum = sum * x + more), ...);
  return sum;
}

// ln 2 = kLn2High + kLn2Low; the high part ends in 21 zeros, so its products with exponents are
// exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// e^x with an error below 2 units in the last place where the result is a normal number, and below
/// 2 of the smallest steps otherwise; NaN for NaN.
///
/// x = n ln 2 + r with |r| <= ln(2) / 2 (Cody and Waite 1980); e^r by its series up to r^13, whose
/// remainder is below 2^-57.
PRIVGRAD_ANYWHERE double exp_fixed(double x) {
  if (x != x) return x;
  if (x > 709.8) return double_of(kDoubleInfinity);
  if (x < -745.2) return 0.0;
  constexpr double kRound = 0x1.8p52;  // adding it rounds to whole numbers
  const double n = (x * 0x1.71547652b82fep0 + kRound) - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = polynomial(r, 1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
                        1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0,
                        1.0 / 24.0, 1.0 / 6.0, 0.5);
  p = 1.0 + (r + r * r * p);
  // In two steps, because 2^n alone may be outside the range of normal numbers.
  const auto whole = static_cast<int64_t>(n);
  const int64_t half = whole / 2;
  return p * double_power_of_two(half) * double_power_of_two(whole - half);
}

/// ln(1 + x) for x >= 0 with an error below 2 units in the last place; NaN for NaN and below 0.
///
/// 1 + x = 2^k (1 + f) with f from sqrt(1/2) - 1 to sqrt(2) - 1, and with s = f / (2 + f):
///   ln(1 + f) = 2 atanh(s) = 2 s + s R,  R = 2 (s^2/3 + s^4/5 + ...),  2 s = f - s f,
/// the series up to s^20, whose remainder is below 2^-58 of the sum.
PRIVGRAD_ANYWHERE double log1p_fixed(double x) {
  if (!(x >= 0.0)) return double_of(kDoubleNan);
  if (!is_finite(x)) return x;
  double f = x, missing = 0.0;
  int64_t k = 0;
  if (x > 0x1.a8p-2) {
    const double sum = 1.0 + x;
    // The addition's rounding error, as a share of the sum.
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
  const double rest = z * polynomial(z, 2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0,
                                     2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0);
  const auto power = static_cast<double>(k);
  return power * kLn2High + (f - (s * (f - rest) - (power * kLn2Low + missing)));
}

/// e^x for x <= 0, to about one unit in the last place; e^-87 (1.6e-38) below -87; NaN for NaN.
///
/// x = n ln 2 + r with |r| <= ln(2) / 2, ln 2 in two parts so that r keeps its digits; e^r by a
/// Chebyshev fit with a relative error of 8e-9.
PRIVGRAD_ANYWHERE float exp_of_negative(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to whole numbers
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 0x1.715476p+0f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
  float p = polynomial(r, 0x1.6d4926p-10f, 0x1.121072p-7f, 0x1.5554e4p-5f, 0x1.5554d8p-3f, 0.5f);
  p = p * (r * r) + r + 1.0f;
  // 2^n: its exponent from the low bits of `shifted`.
  return p * float_of((bits_of(shifted) + 127u) << 23);
}

// The activations. Every one preserves NaN.

PRIVGRAD_ANYWHERE float relu_fixed(float x) { return x <= 0.0f ? 0.0f : x; }

/// Near 0, a Chebyshev fit of (tanh(x) / x - 1) / x^2, with an error below 1e-8 relative to tanh.
PRIVGRAD_ANYWHERE float tanh_fixed(float x) {
  const float size = size_of(x);
  const float z = x * x;
  const float p = polynomial(z, 0x1.22c3dap-9f, -0x1.0f312ap-7f, 0x1.644fd6p-6f, -0x1.ba031ap-5f,
                             0x1.1110dap-3f, -0x1.555556p-2f);
  const float near = x + x * (z * p);
  const float e = exp_of_negative(-2.0f * size);
  const float far =
      float_of((bits_of((1.0f - e) / (1.0f + e)) & 0x7fffffffu) | (bits_of(x) & 0x80000000u));
  return size < 0.65f ? near : far;
}

PRIVGRAD_ANYWHERE float sigmoid_fixed(float x) {
  const float e = exp_of_negative(-size_of(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/// The parts of the normal distribution at x: its density times sqrt(2 pi), e^(-z^2/2) with z =
/// |x|, and the probability beyond z divided by that.
struct NormalParts {
  double density, tail;
};

/// z is cut off at 16, beyond which the result vanishes in float32. The density to 2^-36: z^2/2 = n
/// ln 2 + r as in exp_of_negative(), e^r by its series up to r^9. The tail, e^(z^2/2) erfc(z /
/// sqrt(2)) / 2, which is between 0.5 and 0.02, by t times a Chebyshev fit in t = 1 / (1 + z/3)
/// with a relative error of 1.3e-9.
PRIVGRAD_ANYWHERE NormalParts normal_parts(double x) {
  constexpr double kRound = 0x1.8p52;  // adding it rounds to whole numbers
  double z = x < 0.0 ? -x : x;
  z = z > 16.0 ? 16.0 : z;
  const double power = -0.5 * (z * z);
  const double shifted = power * 0x1.71547652b82fep0 + kRound;
  const double n = shifted - kRound;
  const double r = (power - n * kLn2High) - n * kLn2Low;
  const double p = polynomial(r, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0,
                              1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0);
  const uint64_t exponent = (bits_of(shifted) + 1023u) << 52;
  const double t = 1.0 / (1.0 + z / 3.0);
  const double q = polynomial(t, 0x1.3738d5a534f61p-6, -0x1.e25625809ef9ap-4, 0x1.2e645b0bc36cfp-2,
                              -0x1.72df0883757d8p-2, 0x1.ad07d237538dbp-3, -0x1.73b5b787ec112p-4,
                              0x1.45479824a9643p-4, 0x1.524d2346b008fp-4, 0x1.e75e39d24cac2p-4,
                              0x1.1039aa7a4f3c8p-3, 0x1.10593780ab807p-3);
  return {p * double_of(exponent), q * t};
}

PRIVGRAD_ANYWHERE float gelu_fixed(float in) {
  double x = static_cast<double>(in);
  x = x < -16.0 ? -16.0 : x;
  const NormalParts parts = normal_parts(x);
  const double beyond = parts.density * parts.tail;
  return static_cast<float>(x * (x < 0.0 ? beyond : 1.0 - beyond));
}

// The product of delta with the derivative, from the value y, or, for gelu, from the input.

PRIVGRAD_ANYWHERE float relu_backward_fixed(float y, float delta) {
  return y == 0.0f ? 0.0f : delta;
}
PRIVGRAD_ANYWHERE float tanh_backward_fixed(float y, float delta) {
  return delta * ((1.0f - y) * (1.0f + y));
}
PRIVGRAD_ANYWHERE float sigmoid_backward_fixed(float y, float delta) {
  return delta * (y * (1.0f - y));
}
/// The derivative is Phi(x) + x phi(x).
PRIVGRAD_ANYWHERE float gelu_backward_fixed(float in, float delta) {
  constexpr double kDensity = 0x1.9884533d43651p-2;  // 1 / sqrt(2 pi)
  double x = static_cast<double>(in);
  x = x < -16.0 ? -16.0 : x;
  x = x > 16.0 ? 16.0 : x;
  const NormalParts parts = normal_parts(x);
  const double beyond = parts.density * parts.tail;
  const double derivative = (x < 0.0 ? beyond : 1.0 - beyond) + x * (parts.density * kDensity);
  return static_cast<float>(static_cast<double>(delta) * derivative);
}

}  // namespace privgrad::elementary
