#include "privgrad/trust/box_muller.hpp"

#include <bit>
#include <cfloat>
#include <cmath>
#include <numbers>
#include <vector>

#include "privgrad/instruction_set.hpp"

// One source for all instruction sets: the loop below is plain IEEE arithmetic, inlined into
// functions for which the compiler may use wider registers. Where a product and a sum are rounded
// once, that is written down (multiply_add, which the C library computes where the processor
// cannot: slowly, and to the same bits). The compiler contracting others, which CMakeLists.txt
// forbids, or computing in more than float, is all that could make results differ.
static_assert(FLT_EVAL_METHOD == 0);

namespace privgrad::core {
namespace {

#define PRIVGRAD_INLINE __attribute__((always_inline)) inline

PRIVGRAD_INLINE float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

PRIVGRAD_INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/// `yes` where all bits of the mask are 1, `no` where they are 0. As integers, because then there
/// is nothing to predict.
PRIVGRAD_INLINE float select(std::uint32_t mask, float yes, float no) {
  return from_bits((std::bit_cast<std::uint32_t>(yes) & mask) |
                   (std::bit_cast<std::uint32_t>(no) & ~mask));
}

/// sqrt(-2 ln u) for u = (word + 1/2) 2^-32.
///
/// With a = u below 1/2 and a = 1 - u above (exactly the same number of the inverted word), u is
/// x = a or x = 1 - a. x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = n / (n +
/// 2), n = m - 1, which is computed from a, without rounding: 2^-e a - 1, or (2^-e - 1) - 2^-e a.
/// So ln u keeps its relative accuracy where u is near 1. The polynomial is (-4 atanh(s) / s + 4) /
/// s^2 in s^2, a Chebyshev fit with a relative error of 3e-10 of the whole.
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

struct Pair {
  float cosine;
  float sine;
};

/// Cosine and sine of the angle that a word stands for, times r.
///
/// Chebyshev fits of sin(pi t / 4) / t and cos(pi t / 4) in t^2 on [0, 1], with relative errors of
/// 4e-8 and 2e-8.
PRIVGRAD_INLINE Pair turned(std::uint32_t word, float r) {
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

  // Bit 29 exchanges the two, bits 31 and 30 are their signs: eight octants.
  constexpr std::uint32_t kSign = std::uint32_t{1} << 31;
  const std::uint32_t exchange = 0 - (word >> 29 & 1);
  const std::uint32_t a = std::bit_cast<std::uint32_t>(cosine);
  const std::uint32_t b = std::bit_cast<std::uint32_t>(sine);
  const std::uint32_t change = (a ^ b) & exchange;
  return {from_bits(a ^ change ^ (word & kSign)) * r,
          from_bits(b ^ change ^ (word << 1 & kSign)) * r};
}

PRIVGRAD_INLINE bool transform(const NormalWords& words, float* out) {
  std::uint32_t refine = 0;
  for (std::size_t i = 0; i < NormalWords::kPairs; ++i) {
    refine |= needs_refinement(words.radius[i]) ? 1u : 0u;
    const Pair pair = turned(words.angle[i], radius_of(words.radius[i]));
    out[i] = pair.cosine;
    out[NormalWords::kPairs + i] = pair.sine;
  }
  return refine != 0;
}

bool transform_plain(const NormalWords& words, std::span<float, kNormalsPerChunk> out) {
  return transform(words, out.data());
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) bool transform_avx2(const NormalWords& words,
                                                        std::span<float, kNormalsPerChunk> out) {
  return transform(words, out.data());
}

__attribute__((target("avx512f,avx512dq,avx512vl"))) bool transform_avx512(
    const NormalWords& words, std::span<float, kNormalsPerChunk> out) {
  return transform(words, out.data());
}
#endif

std::vector<BoxMuller> find_variants() {
  std::vector<BoxMuller> found;
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512) found.push_back({"avx512", transform_avx512});
  if (instruction_set() >= InstructionSet::avx2) found.push_back({"avx2", transform_avx2});
#endif
  found.push_back({"plain", transform_plain});
  return found;
}

}  // namespace

std::span<const BoxMuller> box_muller_variants() {
  static const std::vector<BoxMuller> kVariants = find_variants();
  return kVariants;
}

std::pair<float, float> refined_pair(std::uint32_t radius, std::uint32_t angle,
                                     std::uint64_t more) {
  // Near 1 the distance from it, by inverting the word and the bits, so that no digit is lost.
  const bool upper = radius >> 31 != 0;
  const auto whole = static_cast<double>(upper ? ~radius : radius);
  const double fraction = (static_cast<double>(upper ? ~more : more) + 0.5) * 0x1p-64;
  const double a = (whole + fraction) * 0x1p-32;
  const double r = std::sqrt(-2.0 * (upper ? std::log1p(-a) : std::log(a)));
  const auto [cosine, sine] = turned(angle, static_cast<float>(r));
  return {cosine, sine};
}

}  // namespace privgrad::core
