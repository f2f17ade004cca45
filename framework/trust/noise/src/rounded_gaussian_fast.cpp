// The vectorised tiers of the rounded Gaussian: one source for all instruction sets, with the same
// bits at each (normal_kernels.hpp).

#include <cmath>
#include <optional>
#include <vector>

#include "privgrad/instruction_set.hpp"
#include "privgrad/trust/normal_kernels.hpp"
#include "privgrad/trust/rounded_gaussian_tiers.hpp"

namespace privgrad::core {
namespace {

using kernels::from_bits;
using kernels::multiply_add;
using kernels::Pair;
using kernels::radius_of;
using kernels::turned;

constexpr std::size_t kPairs = NormalWords::kPairs;

#define PRIVGRAD_ALWAYS __attribute__((always_inline))  // also works for lambdas

using Sums = std::span<const std::int64_t, kNormalsPerChunk>;

// Both tiers compute in fixed point: Z and the sum's remainder as multiples of 2^-F coarse cells,
// with F as large as the integers' width allows. x = Z + remainder + 1/2 is rounded down to k.
// Given `bound`, a bound on the distance of x from the true value, k is certain if no cell boundary
// lies between x - bound and x + bound, that is, if the fraction of x + bound is at least twice the
// bound.

template <class Integer>
struct Fixed {
  int fraction_bits;
  Integer half;
  Integer mask;
};

template <class Integer>
PRIVGRAD_INLINE Fixed<Integer> fixed_point(int fraction_bits) {
  const Integer one = Integer{1} << fraction_bits;
  return {fraction_bits, one / 2, one - 1};
}

/// \returns k; sets `undecided` if k is uncertain.
template <class Integer>
PRIVGRAD_INLINE std::int32_t rounded_to(Integer z, Integer remainder, Integer bound,
                                        const Fixed<Integer>& fixed, bool& undecided) {
  const Integer x = z + fixed.half + remainder;
  undecided = ((x + bound) & fixed.mask) < 2 * bound;
  return static_cast<std::int32_t>(x >> fixed.fraction_bits);
}

/// Rounds the two elements of pair i.
template <class Integer, class Remainder>
PRIVGRAD_INLINE void round_pair(std::size_t i, const Pair<Integer>& z, Integer bound,
                                const Fixed<Integer>& fixed, const Remainder& remainder,
                                RoundedChunk& out) {
  bool first = false, second = false;
  out.k[i] = rounded_to(z.cosine, remainder(i), bound, fixed, first);
  out.k[kPairs + i] = rounded_to(z.sine, remainder(kPairs + i), bound, fixed, second);
  out.undecided[i] = (first ? 1u : 0u) | (second ? 2u : 0u);
}

/// Calls `loop` with a function that returns the remainder of sum i in fixed point, rounded down by
/// less than one unit. There are three such functions, so that the loop does no unnecessary work.
template <class Integer, class Loop>
PRIVGRAD_INLINE void with_remainders(const Fixed<Integer>& fixed, unsigned shift, Sums sums,
                                     const Loop& loop) {
  const std::int64_t* const from = sums.data();
  const Integer mask = fixed.mask;
  const int left = fixed.fraction_bits - static_cast<int>(shift);
  if (shift == 0) {
    loop([](std::size_t) PRIVGRAD_ALWAYS { return Integer{0}; });
  } else if (left >= 0) {
    loop([=](std::size_t i) PRIVGRAD_ALWAYS {
      return static_cast<Integer>(static_cast<std::uint64_t>(from[i]) << left) & mask;
    });
  } else {
    loop([=](std::size_t i) PRIVGRAD_ALWAYS {
      return static_cast<Integer>(static_cast<std::uint64_t>(from[i]) >> -left) & mask;
    });
  }
}

// r < 6.8, so |Z| < 6.8 2^size is less than 2^30 units: x + bound fits.
PRIVGRAD_INLINE int bits_of_floats(const RoundingScale& scale) {
  constexpr int kMostBits = 24;
  return std::min(kMostBits, 27 - scale.size);
}

PRIVGRAD_INLINE Pair<std::int32_t> truncated(const Pair<float>& z) {
  return {static_cast<std::int32_t>(z.cosine), static_cast<std::int32_t>(z.sine)};
}

/// The distance of Z from its float, divided by sigma 2^-24 (all rounding errors are relative, at
/// most 2^-24 each): the radius's error; the error of the angle's function times r; and r for each
/// of the three roundings of sigma to float, sigma r, and sigma r cos. The omitted products of
/// errors are less than 2^-20 of the rest, which an additional factor covers.
constexpr double kFloatSlope = kFloatRadiusSlope + kFloatAngleError + 3.0;
constexpr double kFloatSlack = 1.0 + 0x1p-10;

/// Three units of 2^-F are added, because the float, the remainder and the bound are each truncated
/// to an integer.
PRIVGRAD_INLINE void floats(const NormalWords& words, const RoundingScale& scale, Sums sums,
                            RoundedChunk& out) {
  // The bound is at most 2^(27 - 24) (6.8 * 6.74 + 0.72) + 3 < 400, less than half a cell if
  // F >= 10, which kLargestSizeOfFloats ensures.
  const int bits = bits_of_floats(scale);
  const auto fixed = fixed_point<std::int32_t>(bits);
  const double unit_sigma = std::ldexp(scale.coarse_sigmas[0], bits);
  const double step = unit_sigma * 0x1p-24 * kFloatSlack;
  const auto factor = static_cast<float>(unit_sigma);
  const auto slope = static_cast<float>(step * kFloatSlope);
  const auto offset = static_cast<float>(step * kFloatRadiusOffset + 3.0);
  with_remainders(fixed, scale.shift, sums, [&](const auto& remainder) PRIVGRAD_ALWAYS {
    for (std::size_t i = 0; i < kPairs; ++i) {
      const float r = radius_of(words.radius[i]);
      const Pair<float> z = turned(words.angle[i], r * factor);
      const auto error = static_cast<std::int32_t>(multiply_add(r, slope, offset));
      const std::int32_t bound = radius_is_coarse(words.radius[i]) ? fixed.half : error;
      round_pair(i, truncated(z), bound, fixed, remainder, out);
    }
  });
}

/// A bound, in units, on the distance of one term from its integer, computed as in floats(). The
/// offset of the radius, also of a coarse word, is in 2^-24 sigma; one unit is added because the
/// float is truncated. A word without a bound gets half a cell, with which no element is decided.
///
/// All bounds are sums of floats with at most 20 roundings (slope and offset, the product, the sums
/// of 16 terms, round_terms()), which lower them by less than 2^-19 of their value. The 2 units of
/// round_terms() are at most two thirds of a bound; the slack covers everything else, including
/// the unit added here. That unit also has room, 2^-10, for the loss of floats below 2^-126.
PRIVGRAD_INLINE void add_term(const NormalWords& words, const RoundingScale& scale,
                              std::size_t term, FloatSums& to) {
  const int bits = bits_of_floats(scale);
  const double unit_sigma = std::ldexp(scale.coarse_sigmas[term], bits);
  const double step = std::abs(unit_sigma) * 0x1p-24 * kFloatSlack;
  const auto factor = static_cast<float>(unit_sigma);
  const auto slope = static_cast<float>(step * kFloatSlope);
  const auto offset = static_cast<float>(step * kFloatRadiusOffset + kFloatSlack);
  const auto coarse = static_cast<float>(step * kFloatCoarseRadiusOffset + kFloatSlack);
  const auto half = static_cast<float>(fixed_point<std::int32_t>(bits).half);
  // Two loops: the processor can overlap more iterations of short loops.
  std::array<float, kPairs> radii;
  for (std::size_t i = 0; i < kPairs; ++i) radii[i] = radius_of(words.radius[i]);
  for (std::size_t i = 0; i < kPairs; ++i) {
    const std::uint32_t word = words.radius[i];
    const float r = radii[i];
    const Pair<std::int32_t> z = truncated(turned(words.angle[i], r * factor));
    const float fixed_part = radius_is_coarse(word) ? coarse : offset;
    to.z[i] += z.cosine;
    to.z[kPairs + i] += z.sine;
    to.bound[i] += multiply_add(r, slope, radius_has_no_bound(word) ? half : fixed_part);
  }
}

/// Adds two more units, because the remainder and the bound are truncated.
PRIVGRAD_INLINE void round_terms(const FloatSums& of, const RoundingScale& scale, Sums sums,
                                 RoundedChunk& out) {
  const auto fixed = fixed_point<std::int32_t>(bits_of_floats(scale));
  const auto half = static_cast<float>(fixed.half);
  with_remainders(fixed, scale.shift, sums, [&](const auto& remainder) PRIVGRAD_ALWAYS {
    for (std::size_t i = 0; i < kPairs; ++i) {
      const float error = of.bound[i] + 2.0f;
      const auto bound = static_cast<std::int32_t>(error < half ? error : half);
      const Pair<std::int32_t> z{of.z[i], of.z[kPairs + i]};
      round_pair(i, z, bound, fixed, remainder, out);
    }
  });
}

/// Rounds to the nearest integer, for |x| < 2^51, by the last bits of 2^52 + 2^51 + x. (AVX2 cannot
/// convert to 64-bit integers.)
PRIVGRAD_INLINE std::int64_t nearest(double x) {
  constexpr double kShifter = 0x1.8p52;
  return std::bit_cast<std::int64_t>(x + kShifter) - std::bit_cast<std::int64_t>(kShifter);
}

/// Returns at least 1 / (u r) in the cell of `a`, for u and r at the middle of that cell. The bound
/// multiplies the powers of two below u and r, which takes two subtractions of exponent bits.
PRIVGRAD_INLINE double slope_at_most(double a, std::uint64_t upper, double r) {
  constexpr std::uint64_t kExponent = std::uint64_t{0x7ff} << 52;
  constexpr std::uint64_t kOne = std::uint64_t{1023} << 52;
  const double u = kernels::select(upper, 1.0 - a, a);
  return from_bits(3 * kOne - (std::bit_cast<std::uint64_t>(u) & kExponent) -
                   (std::bit_cast<std::uint64_t>(r) & kExponent));
}

/// The bound, divided by sigma, comes almost entirely from the widths of the cells.
/// |dr / du| = 1 / (u r), so the radius is off by at most 2^-33 / (u r), where u and r each vary by
/// less than a factor 1 + 2^-14 over a cell that radius_is_coarse() lets pass. A cell of V turns
/// the angle by at most pi / 8 2^-29 = 0.7854 2^-30. Rounding this up to 0.8 2^-30 covers the
/// arithmetic's error of 2^-46 r (see fine()). Three units are added, as for floats.
PRIVGRAD_INLINE void doubles(const NormalWords& words, const RoundingScale& scale, Sums sums,
                             RoundedChunk& out) {
  constexpr int kMostBits = 40;
  const int bits = std::min(kMostBits, 48 - scale.size);  // |Z| < 6.8 2^size: fewer than 2^51 units
  const auto fixed = fixed_point<std::int64_t>(bits);
  const double factor = std::ldexp(scale.coarse_sigmas[0], bits);
  const double cell = factor * 0x1p-33 * 1.01;
  const double turn = factor * 0x1p-30 * 0.8;
  const auto most = static_cast<double>(fixed.half);
  with_remainders(fixed, scale.shift, sums, [&](const auto& remainder) PRIVGRAD_ALWAYS {
    for (std::size_t i = 0; i < kPairs; ++i) {
      const std::uint32_t sign = 0 - (words.radius[i] >> 31);
      const std::uint64_t upper = 0 - static_cast<std::uint64_t>(words.radius[i] >> 31);
      const auto below_half = static_cast<std::int32_t>(words.radius[i] ^ sign);
      const double a = multiply_add(static_cast<double>(below_half), 0x1p-32, 0x1p-33);
      const auto low = static_cast<std::int32_t>(words.angle[i] & 0x1fffffff);
      const double t = multiply_add(static_cast<double>(low), 0x1p-29, 0x1p-30);
      const double r = radius_of(a, upper);
      const Pair<double> z = turned(words.angle[i], t, r * factor);
      const double error =
          multiply_add(turn, r, multiply_add(cell, slope_at_most(a, upper, r), 3.0));
      const double capped = error < most ? error : most;
      const std::int64_t bound = nearest(radius_is_coarse(words.radius[i]) ? most : capped);
      round_pair(i, Pair<std::int64_t>{nearest(z.cosine), nearest(z.sine)}, bound, fixed, remainder,
                 out);
    }
  });
}

PRIVGRAD_INLINE void add(const RoundedChunk& rounded, unsigned shift, Sums sums,
                         std::span<std::int64_t, kNormalsPerChunk> out) {
  const std::int64_t* const from = sums.data();
  std::int64_t* const to = out.data();
  // `from` and `to` are the same array or disjoint; they never overlap with an offset.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < kNormalsPerChunk; ++i) {
    // Unsigned, because the sum may wrap.
    to[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(from[i] >> shift) +
                                      static_cast<std::uint64_t>(std::int64_t{rounded.k[i]}));
  }
}

/// One term of `fine`: sigma zeta, and |sigma| r.
struct FineTerm {
  double z;
  double length;
};

PRIVGRAD_INLINE FineTerm fine_term(const RoundingAddress& address, double sigma,
                                   const RoundingBits& bits) {
  // Near 1, computes the distance from 1 by inverting the bits, so that no digit is lost.
  const std::uint64_t upper = 0 - static_cast<std::uint64_t>(address.radius >> 31);
  const auto whole = static_cast<double>(address.radius ^ static_cast<std::uint32_t>(upper));
  const double a = (whole + static_cast<double>(bits.radius ^ upper) * 0x1p-64) * 0x1p-32;
  const double t = (static_cast<double>(address.angle & 0x1fffffff) +
                    static_cast<double>(bits.angle) * 0x1p-64) *
                   0x1p-29;
  const double r = radius_of(a, upper) * sigma;
  const Pair<double> z = turned(address.angle, t, r);
  return {address.sine ? z.sine : z.cosine, std::abs(r)};
}

/// The bound is 2^-46 S for Z, where S is the sum of all |sigma| r, and 2^-50 for the rest.
///
/// A term's error, divided by sigma r; e = 2^-53 is the largest relative error of one rounding:
/// - ln u. a has an error of 2 e (its two parts are rounded, then their sum) and 2^-65 for the
///   width of its cell. That moves L = -2 ln u by 4 e at most, where u is not near 1, and relative
///   to L by 2.4 e where it is; n's rounding adds another e to L. s has 2 e, p 1.2 e (its terms
///   beyond -4 are less than 0.01 of it; the fit has 2^-57), s p 1 e: 4.2 e of |s p| <= ln 2, or
///   2.9 e. So L is off by 8 e, 1 e for the constant and 1 e for the last rounding. Relative to L,
///   this is at most 15 e, because L >= ln 2; near 1, where s p is all of L, 7 e. The square root
///   halves that and adds 1 e: 8.5 e.
/// - The angle's function. t has 2 e, z 5 e; the sine ends with 5 e and the cosine with 6 e,
///   absolute, the fits' 2^-56 and 2^-52 included; the cell of V is 2^-93 wide.
/// - Two products, by sigma and by the cosine or sine: 2 e.
/// Together these are less than 17 e. Adding up to 16 terms takes 15 roundings of values of at most
/// S. The sums with the remainder and with the bound are rounded three times, by at most
/// e (|Z| + 2): 3 e S more, and 6 e = 0.8 2^-50. The total is 35 e S, below 2^-47 S; S is computed
/// with a relative error of at most 30 e. The test "double arithmetic is within an eighth of what
/// the tiers assume" compares radii and angles with long double.
PRIVGRAD_INLINE std::optional<std::int64_t> fine(std::span<const RoundingAddress> terms,
                                                 const RoundingScale& scale,
                                                 std::uint64_t remainder,
                                                 std::span<const RoundingBits> bits) {
  constexpr int kLargestSize = 46;  // above it no element would be decided, and |Z| could exceed
                                    // 2^51
  if (scale.size > kLargestSize) return std::nullopt;
  double sum = 0.0, length = 0.0;
  for (std::size_t j = 0; j < terms.size(); ++j) {
    const std::uint32_t radius = terms[j].radius;
    if (radius == 0 || radius == ~std::uint32_t{0}) return std::nullopt;
    const FineTerm term = fine_term(terms[j], scale.coarse_sigmas[j], bits[j]);
    sum += term.z;
    length += term.length;
  }
  const double fraction =
      std::ldexp(static_cast<double>(remainder), -static_cast<int>(scale.shift));
  const double x = sum + (fraction + 0.5);
  const double bound = length * 0x1p-46 + 0x1p-50;
  const double k = std::floor(x - bound);
  if (k != std::floor(x + bound)) return std::nullopt;
  return static_cast<std::int64_t>(k);
}

PRIVGRAD_INLINE void float_pairs(const NormalWords& words, FloatPairs& out) {
  for (std::size_t i = 0; i < kPairs; ++i) {
    out.radius[i] = radius_of(words.radius[i]);
    const Pair<float> pair = turned(words.angle[i], 1.0f);
    out.cosine[i] = pair.cosine;
    out.sine[i] = pair.sine;
  }
}

// The functions of one instruction level: the loops above, inlined into functions that may use its
// instructions. NOLINTBEGIN(bugprone-macro-parentheses): the attributes cannot be parenthesised.
#define PRIVGRAD_ROUNDING_LEVEL(level, attributes)                                                 \
  attributes void floats_##level(const NormalWords& words, const RoundingScale& scale, Sums sums,  \
                                 RoundedChunk& out) {                                              \
    floats(words, scale, sums, out);                                                               \
  }                                                                                                \
  attributes void doubles_##level(const NormalWords& words, const RoundingScale& scale, Sums sums, \
                                  RoundedChunk& out) {                                             \
    doubles(words, scale, sums, out);                                                              \
  }                                                                                                \
  attributes void add_term_##level(const NormalWords& words, const RoundingScale& scale,           \
                                   std::size_t term, FloatSums& to) {                              \
    add_term(words, scale, term, to);                                                              \
  }                                                                                                \
  attributes void round_terms_##level(const FloatSums& of, const RoundingScale& scale, Sums sums,  \
                                      RoundedChunk& out) {                                         \
    round_terms(of, scale, sums, out);                                                             \
  }                                                                                                \
  attributes std::optional<std::int64_t> fine_##level(                                             \
      std::span<const RoundingAddress> terms, const RoundingScale& scale, std::uint64_t remainder, \
      std::span<const RoundingBits> bits) {                                                        \
    return fine(terms, scale, remainder, bits);                                                    \
  }                                                                                                \
  attributes void add_##level(const RoundedChunk& rounded, unsigned shift, Sums sums,              \
                              std::span<std::int64_t, kNormalsPerChunk> out) {                     \
    add(rounded, shift, sums, out);                                                                \
  }                                                                                                \
  attributes void float_pairs_##level(const NormalWords& words, FloatPairs& out) {                 \
    float_pairs(words, out);                                                                       \
  }                                                                                                \
  constexpr RoundingVariant k_##level {                                                            \
#level, floats_##level, doubles_##level, add_term_##level, round_terms_##level, fine_##level,  \
        add_##level, float_pairs_##level                                                           \
  }

PRIVGRAD_ROUNDING_LEVEL(plain, );
#if defined(__x86_64__)
PRIVGRAD_ROUNDING_LEVEL(avx2, __attribute__((target("avx2,fma"))));
PRIVGRAD_ROUNDING_LEVEL(avx512, __attribute__((target("avx512f,avx512dq,avx512vl"))));
#endif
// NOLINTEND(bugprone-macro-parentheses)

std::vector<RoundingVariant> find_variants() {
  std::vector<RoundingVariant> found;
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512) found.push_back(k_avx512);
  if (instruction_set() >= InstructionSet::avx2) found.push_back(k_avx2);
#endif
  found.push_back(k_plain);
  return found;
}

}  // namespace

std::span<const RoundingVariant> rounding_variants() {
  static const std::vector<RoundingVariant> variants = find_variants();
  return variants;
}

}  // namespace privgrad::core
