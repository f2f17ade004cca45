#include "privgrad/core/box_muller.hpp"

#include <bit>
#include <cfloat>
#include <cmath>
#include <vector>

// One source for all instruction sets: the loop below is plain IEEE arithmetic, inlined into
// functions for which the compiler may use wider registers. Their results can only differ if it
// contracts a product and a sum into one rounding, which CMakeLists.txt forbids, or computes in
// more than double.
static_assert(FLT_EVAL_METHOD == 0);

namespace privgrad::core {
namespace {

#define PRIVGRAD_INLINE __attribute__((always_inline)) inline

constexpr std::uint64_t kExponentOf2To52 = 0x4330000000000000;

/// An integer below 2^52 as a double, minus `offset`; for offset = 2^52 its value. The integer goes
/// where a double of exponent 52 has its fraction, because AVX2 cannot convert 64-bit integers.
PRIVGRAD_INLINE double to_double(std::uint64_t below_2_to_52, double offset) {
  return std::bit_cast<double>(below_2_to_52 | kExponentOf2To52) - offset;
}

/// sqrt(-2 ln(v 2^-52)) for v in [2^-65, 2^52).
///
/// v 2^-52 = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), which
/// keeps its relative accuracy where u is near 1. The polynomial is -4 atanh(s) / s in s^2, a
/// Chebyshev fit with a relative error of 2.3e-16.
PRIVGRAD_INLINE double radius(double v) {
  constexpr std::uint64_t kBias = 128;  // keeps the exponent positive: the shift is unsigned
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(v);
  const std::uint64_t exponent = (bits - kSqrtHalf + (kBias << 52)) >> 52;
  const double m = std::bit_cast<double>(bits - (exponent << 52) + (kBias << 52));
  const double e = to_double(exponent, 0x1p52 + 52 + kBias);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = -0x1.58d5d4a93822dp-2;
  p = p * z - 0x1.732320a9c93b0p-2;
  p = p * z - 0x1.c722cceee92f4p-2;
  p = p * z - 0x1.249240b87155dp-1;
  p = p * z - 0x1.999999a435066p-1;
  p = p * z - 0x1.5555555552d50p+0;
  p = p * z - 0x1.0000000000001p+2;
  return std::sqrt(e * -0x1.62e42fefa39efp+0 + s * p);
}

struct Pair {
  double cosine;
  double sine;
};

/// radius(v) times cosine and sine of the angle that 12 + 32 bits stand for.
///
/// Chebyshev fits of sin(pi t / 4) / t and cos(pi t / 4) in t^2 on [0, 1], with relative errors of
/// 4.8e-15 and 1.5e-16.
PRIVGRAD_INLINE Pair transform_pair(double v, std::uint64_t high, std::uint32_t low) {
  const double t = to_double((high & 0x1ff) << 32 | low, 0x1p52 - 0.5) * 0x1p-41;
  const double z = t * t;
  double sine = -0x1.dd54805f3f706p-30;
  sine = sine * z + 0x1.5071ce4b47930p-22;
  sine = sine * z - 0x1.32d2c644adc0bp-15;
  sine = sine * z + 0x1.466bc67123fa1p-9;
  sine = sine * z - 0x1.4abbce6257a2ap-4;
  sine = sine * z + 0x1.921fb54442cfap-1;
  sine = sine * t;
  double cosine = 0x1.f3dbcea61b1a4p-34;
  cosine = cosine * z - 0x1.a6c9c1be9eb49p-26;
  cosine = cosine * z + 0x1.e1f4fb60281f6p-19;
  cosine = cosine * z - 0x1.55d3c7dbfd139p-12;
  cosine = cosine * z + 0x1.03c1f081b0780p-6;
  cosine = cosine * z - 0x1.3bd3cc9be458bp-2;
  cosine = cosine * z + 1.0;

  // Bit 9 exchanges the two, bits 11 and 10 are their signs: eight octants. As integers, because
  // then there is nothing to predict.
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  const std::uint64_t exchange = 0 - (high >> 9 & 1);
  const std::uint64_t a = std::bit_cast<std::uint64_t>(cosine);
  const std::uint64_t b = std::bit_cast<std::uint64_t>(sine);
  const std::uint64_t change = (a ^ b) & exchange;
  const double r = radius(v);
  return {std::bit_cast<double>(a ^ change ^ (high << 52 & kSign)) * r,
          std::bit_cast<double>(b ^ change ^ (high << 53 & kSign)) * r};
}

PRIVGRAD_INLINE bool transform(const NormalWords& words, double* out) {
  std::uint64_t refine = 0;
  for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
    const std::uint64_t high = words.high[i];
    refine |= (high >> 52) - 1;  // the sign bit appears if the 12 bits are 0
    const Pair pair = transform_pair(to_double(high >> 12, 0x1p52 - 0.5), high, words.low[i]);
    out[i] = pair.cosine;
    out[NormalWords::kPairs + i] = pair.sine;
  }
  return refine >> 63 != 0;
}

bool transform_plain(const NormalWords& words, std::span<double, kNormalsPerChunk> out) {
  return transform(words, out.data());
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) bool transform_avx2(const NormalWords& words,
                                                    std::span<double, kNormalsPerChunk> out) {
  return transform(words, out.data());
}

__attribute__((target("avx512f,avx512dq,avx512vl"))) bool transform_avx512(
    const NormalWords& words, std::span<double, kNormalsPerChunk> out) {
  return transform(words, out.data());
}
#endif

std::vector<BoxMuller> find_variants() {
  std::vector<BoxMuller> found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    found.push_back({"avx512", transform_avx512});
  if (__builtin_cpu_supports("avx2")) found.push_back({"avx2", transform_avx2});
#endif
  found.push_back({"plain", transform_plain});
  return found;
}

}  // namespace

std::span<const BoxMuller> box_muller_variants() {
  static const std::vector<BoxMuller> kVariants = find_variants();
  return kVariants;
}

std::pair<double, double> refined_pair(std::uint64_t high, std::uint32_t low, std::uint64_t more) {
  // The sum is rounded once it has more than 53 bits, the product by a power of two never.
  const double fraction = (static_cast<double>(more) + 0.5) * 0x1p-64;
  const Pair pair = transform_pair(static_cast<double>(high >> 12) + fraction, high, low);
  return {pair.cosine, pair.sine};
}

}  // namespace privgrad::core
