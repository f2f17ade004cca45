// The arithmetic of Box-Muller in float and double, shared by the loops of every instruction set.
#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>

// Box-Muller as plain IEEE operations, one source for all instruction sets, inlined into loops for
// which the compiler may use wider registers. Where a product and a sum share one rounding, the
// source calls multiply_add. On processors without that instruction, the C library computes the
// same bits slowly. Results could differ only if the compiler contracted other operations, which
// CMakeLists.txt forbids, or computed in more precision than float.
static_assert(FLT_EVAL_METHOD == 0);

namespace privgrad::core::kernels {

#define PRIVGRAD_INLINE __attribute__((always_inline)) inline

PRIVGRAD_INLINE float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
PRIVGRAD_INLINE double from_bits(std::uint64_t bits) { return std::bit_cast<double>(bits); }

PRIVGRAD_INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PRIVGRAD_INLINE double multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }

/// `yes` where all bits of the mask are 1, `no` where they are 0. Selects with integer operations,
/// so there is no branch to predict.
PRIVGRAD_INLINE float select(std::uint32_t mask, float yes, float no) {
  return from_bits((std::bit_cast<std::uint32_t>(yes) & mask) |
                   (std::bit_cast<std::uint32_t>(no) & ~mask));
}
PRIVGRAD_INLINE double select(std::uint64_t mask, double yes, double no) {
  return from_bits((std::bit_cast<std::uint64_t>(yes) & mask) |
                   (std::bit_cast<std::uint64_t>(no) & ~mask));
}

/// sqrt(-2 ln u) for u = (word + 1/2) 2^-32.
///
/// Let a = u if u is below 1/2, otherwise a = 1 - u, which is exactly the u of the inverted word.
/// Write u = m 2^e with m in [sqrt(1/2), sqrt(2)). Then ln m = 2 atanh(s), where s = n / (n + 2)
/// and n = m - 1, which is computed from a without rounding: 2^-e a - 1, or (2^-e - 1) - 2^-e a.
/// So ln u keeps its relative accuracy where u is near 1. The polynomial in s^2 is a Chebyshev fit
/// of (-4 atanh(s) / s + 4) / s^2, with a relative error of 3e-10 of the whole.
PRIVGRAD_INLINE float radius_of(std::uint32_t word) {
  constexpr std::uint32_t kSqrtHalf = 0x3f3504f3;
  constexpr std::uint32_t kBias = 127;
  const std::uint32_t upper = 0 - (word >> 31);
  const auto below_half = static_cast<std::int32_t>(word ^ upper);
  const float a = multiply_add(static_cast<float>(below_half), 0x1p-32f, 0x1p-33f);
  const float x = select(upper, 1.0f - a, a);
  // e + kBias; the added bias keeps the difference positive.
  const std::uint32_t exponent =
      (std::bit_cast<std::uint32_t>(x) - kSqrtHalf + (kBias << 23)) >> 23;
  const float scale = from_bits((2 * kBias - exponent) << 23);  // 2^-e
  const float n =
      select(upper, multiply_add(-scale, a, scale - 1.0f), multiply_add(scale, a, -1.0f));
  const float s = n / (n + 2.0f);
  const float z = s * s;
  float p = -0x1.de0fd4p-2f;
  p = multiply_add(p, z, -0x1.245b0cp-1f);
  p = multiply_add(p, z, -0x1.9999eep-1f);
  p = multiply_add(p, z, -0x1.555556p+0f);
  p = multiply_add(p, z, -4.0f);
  const float e = static_cast<float>(static_cast<std::int32_t>(exponent - kBias));
  return std::sqrt(multiply_add(s, p, e * -0x1.62e430p+0f));
}

/// sqrt(-2 ln u) for u = a where the mask `upper` is 0, u = 1 - a where it is all ones; a in
/// [2^-97, 1/2] (more bits than the 53 of u itself, where u is near 1). Works like radius_of()
/// above, with a different fit, of relative error 2^-57.
PRIVGRAD_INLINE double radius_of(double a, std::uint64_t upper) {
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  constexpr std::uint64_t kBias = 1023;
  const double x = select(upper, 1.0 - a, a);
  const std::uint64_t exponent =
      (std::bit_cast<std::uint64_t>(x) - kSqrtHalf + (kBias << 52)) >> 52;
  const double scale = from_bits((2 * kBias - exponent) << 52);
  const double n =
      select(upper, multiply_add(-scale, a, scale - 1.0), multiply_add(scale, a, -1.0));
  const double s = n / (n + 2.0);
  const double z = s * s;
  double p = -0x1.2b584c6b42d60p-2;
  p = multiply_add(p, z, -0x1.39fe604146b74p-2);
  p = multiply_add(p, z, -0x1.7462b4ac441afp-2);
  p = multiply_add(p, z, -0x1.c71c62e57c3c4p-2);
  p = multiply_add(p, z, -0x1.2492492df14bcp-1);
  p = multiply_add(p, z, -0x1.99999999952e2p-1);
  p = multiply_add(p, z, -0x1.5555555555558p+0);
  p = multiply_add(p, z, -4.0);
  // The exponent as the last bits of 2^52 + exponent: AVX2 cannot convert 64-bit integers.
  const double e = from_bits(0x4330000000000000 | exponent) - (0x1p52 + kBias);
  return std::sqrt(multiply_add(e, -0x1.62e42fefa39efp+0, s * p));
}

template <class Real>
struct Pair {
  Real cosine;
  Real sine;
};

/// r times the cosine and the sine of the angle that a word encodes.
///
/// Chebyshev fits of sin(pi t / 4) / t and cos(pi t / 4) in t^2 on [0, 1], with relative errors of
/// 4e-8 and 2e-8.
PRIVGRAD_INLINE Pair<float> turned(std::uint32_t word, float r) {
  const auto k = static_cast<float>(static_cast<std::int32_t>(word & 0x1fffffff));
  const float t = multiply_add(k, 0x1p-29f, 0x1p-30f);
  const float z = t * t;
  float sine = -0x1.2d9b7cp-15f;
  sine = multiply_add(sine, z, 0x1.465ec4p-9f);
  sine = multiply_add(sine, z, -0x1.4abbbap-4f);
  sine = multiply_add(sine, z, 0x1.921fb6p-1f);
  sine = sine * t;
  float cosine = 0x1.db64d0p-19f;
  cosine = multiply_add(cosine, z, -0x1.55cb98p-12f);
  cosine = multiply_add(cosine, z, 0x1.03c1eap-6f);
  cosine = multiply_add(cosine, z, -0x1.3bd3ccp-2f);
  cosine = multiply_add(cosine, z, 1.0f);

  // Bit 29 exchanges cosine and sine, bits 31 and 30 are their signs: eight octants.
  constexpr std::uint32_t kSign = std::uint32_t{1} << 31;
  const std::uint32_t exchange = 0 - (word >> 29 & 1);
  const std::uint32_t a = std::bit_cast<std::uint32_t>(cosine);
  const std::uint32_t b = std::bit_cast<std::uint32_t>(sine);
  const std::uint32_t change = (a ^ b) & exchange;
  return {from_bits(a ^ change ^ (word & kSign)) * r,
          from_bits(b ^ change ^ (word << 1 & kSign)) * r};
}

/// r times the cosine and the sine of pi t / 4, moved to the octant that the word's three leading
/// bits choose; by fits of the form used for float, with absolute errors below 2^-56 (sine) and
/// 2^-52 (cosine).
/// \param t  in [0, 1].
PRIVGRAD_INLINE Pair<double> turned(std::uint32_t word, double t, double r) {
  const double z = t * t;
  double sine = 0x1.e4a9d9166f052p-38;
  sine = multiply_add(sine, z, -0x1.e3027dea82bd7p-30);
  sine = multiply_add(sine, z, 0x1.50783208843ebp-22);
  sine = multiply_add(sine, z, -0x1.32d2cce500387p-15);
  sine = multiply_add(sine, z, 0x1.466bc6775a476p-9);
  sine = multiply_add(sine, z, -0x1.4abbce625be52p-4);
  sine = multiply_add(sine, z, 0x1.921fb54442d18p-1);
  sine = sine * t;
  double cosine = 0x1.f4b536b457d9ep-34;
  cosine = multiply_add(cosine, z, -0x1.a6cc32d07dc98p-26);
  cosine = multiply_add(cosine, z, 0x1.e1f50093e4c8fp-19);
  cosine = multiply_add(cosine, z, -0x1.55d3c7e10153fp-12);
  cosine = multiply_add(cosine, z, 0x1.03c1f081b4b74p-6);
  cosine = multiply_add(cosine, z, -0x1.3bd3cc9be45dbp-2);
  cosine = multiply_add(cosine, z, 1.0);

  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  const std::uint64_t wide = word;
  const std::uint64_t exchange = 0 - (wide >> 29 & 1);
  const std::uint64_t a = std::bit_cast<std::uint64_t>(cosine);
  const std::uint64_t b = std::bit_cast<std::uint64_t>(sine);
  const std::uint64_t change = (a ^ b) & exchange;
  return {from_bits(a ^ change ^ (wide << 32 & kSign)) * r,
          from_bits(b ^ change ^ (wide << 33 & kSign)) * r};
}

}  // namespace privgrad::core::kernels
