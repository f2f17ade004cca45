// Elementary functions and activations with the same bits on every kind of processor and with every
// C library.
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

/// Returns 2^exponent, for the exponents of normal numbers: -126 to 127 and -1022 to 1023.
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

/// Returns e^x with an error below 2 units in the last place where the result is a normal number,
/// and below twice the smallest subnormal number otherwise; NaN for NaN.
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
  // Multiplies by the power 2^n in two steps, because 2^n itself may be outside the range of normal
  // numbers.
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

struct Rotation {
  double cosine, sine;
};

/// Computes sine and cosine with an error of at most 4e-16, for angles from 0 to 2^20.
///
/// x = n pi/2 + r with |r| <= pi/4, where pi/2 is split in two parts, the first of which ends in 20
/// zeros, so that its products are exact. The series up to r^17 and r^18 have remainders below
/// 1e-19.
PRIVGRAD_ANYWHERE Rotation rotation_by(double x) {
  constexpr double kRound = 0x1.8p52;  // adding it rounds to whole numbers
  const double n = (x * 0x1.45f306dc9c883p-1 + kRound) - kRound;
  const double r = (x - n * 0x1.921fb54400000p0) - n * 0x1.0b4611a626331p-34;
  const double z = r * r;
  const double sine = r + r * (z * polynomial(z, 1.0 / 355687428096000.0, -1.0 / 1307674368000.0,
                                              1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0,
                                              -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0));
  const double cosine =
      1.0 + z * polynomial(z, -1.0 / 6402373705728000.0, 1.0 / 20922789888000.0,
                           -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0,
                           -1.0 / 720.0, 1.0 / 24.0, -0.5);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
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
  // Multiplies by 2^n, whose exponent bits come from the low bits of `shifted`.
  return p * float_of((bits_of(shifted) + 127u) << 23);
}

// The activations. All preserve NaN.

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

/// The parts of the normal distribution at x: its density times sqrt(2 pi), e^(-z^2/2) with
/// z = |x|, and the probability beyond z divided by that product.
struct NormalParts {
  float density, tail;
};

/// Computes both parts to a relative 5e-7. z is limited to kLargestNormal, beyond which the density
/// is 0.
///
/// z^2 is split in two parts; the first is exact, because it is the square of the upper half of z's
/// digits. Then z^2/2 = n ln 2 + r, and e^r is computed by the fit of exp_of_negative(). The tail,
/// e^(z^2/2) erfc(z / sqrt(2)) / 2, between 0.5 and 0.02, is t times a minimax fit in
/// t = 1 / (1 + z/3) with a relative error of 7e-8.
constexpr float kLargestNormal = 13.25f;
PRIVGRAD_ANYWHERE NormalParts normal_parts(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to whole numbers
  float z = size_of(x);
  z = z > kLargestNormal ? kLargestNormal : z;
  const float upper = float_of(bits_of(z) & 0xfffff000u), lower = z - upper;
  const float power = -0.5f * (upper * upper), rest = -0.5f * (lower * (z + upper));
  const float shifted = (power + rest) * 0x1.715476p+0f + kRound;
  const float n = shifted - kRound;
  const float r = ((power - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f) + rest;
  float p = polynomial(r, 0x1.6d4926p-10f, 0x1.121072p-7f, 0x1.5554e4p-5f, 0x1.5554d8p-3f, 0.5f);
  p = p * (r * r) + r + 1.0f;
  const float t = 1.0f / (1.0f + z * 0x1.555556p-2f);
  const float q =
      polynomial(t, -0x1.60a6b2p-6f, 0x1.faf0cap-4f, -0x1.09eb20p-2f, 0x1.a66feep-3f,
                 -0x1.710034p-5f, 0x1.dd7a72p-4f, 0x1.cfbd1cp-4f, 0x1.11597ap-3f, 0x1.104d92p-3f);
  return {p * float_of((bits_of(shifted) + 127u) << 23), q * t};
}

/// Returns Phi(x), the probability up to x.
PRIVGRAD_ANYWHERE float probability_up_to(float x, const NormalParts& parts) {
  const float beyond = parts.density * parts.tail;
  return x < 0.0f ? beyond : 1.0f - beyond;
}

PRIVGRAD_ANYWHERE float gelu_fixed(float x) {
  const float probability = probability_up_to(x, normal_parts(x));
  x = x < -kLargestNormal ? -kLargestNormal : x;  // otherwise -infinity times 0
  return x * probability;
}

/// The limit of the inputs of silu, beyond which 1 / (1 + exp(-|x|)) is 1 in float32.
constexpr float kLargestLogit = 90.0f;

PRIVGRAD_ANYWHERE float clamped(float x, float size) {
  x = x < -size ? -size : x;
  return x > size ? size : x;
}

PRIVGRAD_ANYWHERE float silu_fixed(float x) {
  const float share = sigmoid_fixed(x);
  x = x < -kLargestLogit ? -kLargestLogit : x;  // otherwise -infinity times e^-87
  return x * share;
}

// gelu_tanh(x) = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3), because 1 + tanh(u) = 2
// sigmoid(2 u): without the cancellation of 1 + tanh.
constexpr float kTwiceRootTwoOverPi = 0x1.988454p+0f, kCubic = 0x1.6e4e26p-5f;

PRIVGRAD_ANYWHERE float gelu_tanh_fixed(float x) {
  const float near = clamped(x, kLargestNormal);
  const float share = sigmoid_fixed(kTwiceRootTwoOverPi * (near + kCubic * (near * near * near)));
  x = x < -kLargestNormal ? -kLargestNormal : x;
  return x * share;
}

// Products of delta and the derivative, computed from the value y, or, for gelu, silu and
// gelu_tanh, from the input.

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
PRIVGRAD_ANYWHERE float gelu_backward_fixed(float x, float delta) {
  constexpr float kDensity = 0x1.988454p-2f;  // 1 / sqrt(2 pi)
  x = x < -kLargestNormal ? -kLargestNormal : x;
  x = x > kLargestNormal ? kLargestNormal : x;
  const NormalParts parts = normal_parts(x);
  return delta * (probability_up_to(x, parts) + x * (parts.density * kDensity));
}
/// The derivative is s + x s (1 - s), with s = sigmoid(x).
PRIVGRAD_ANYWHERE float silu_backward_fixed(float x, float delta) {
  const float share = sigmoid_fixed(x), other = sigmoid_fixed(-x);
  return delta * (share + clamped(x, kLargestLogit) * (share * other));
}
/// The derivative is s + x s (1 - s) 2 u', with s = sigmoid(2 u).
PRIVGRAD_ANYWHERE float gelu_tanh_backward_fixed(float x, float delta) {
  x = clamped(x, kLargestNormal);
  const float square = x * x;
  const float u = kTwiceRootTwoOverPi * (x + kCubic * (square * x));
  const float slope = kTwiceRootTwoOverPi * (1.0f + 3.0f * (kCubic * square));
  const float share = sigmoid_fixed(u), other = sigmoid_fixed(-u);
  return delta * (share + x * (share * other) * slope);
}

}  // namespace privgrad::elementary
