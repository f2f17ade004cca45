// How rounded Gaussian noise is computed: fast first, more precisely where that cannot decide.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "privgrad/trust/counter_cipher.hpp"
#include "privgrad/trust/noise_words.hpp"
#include "privgrad/trust/rounded_gaussian.hpp"

namespace privgrad::core {

/// The tiers by which RoundedGaussianStream decides its elements (defined in rounded_gaussian.hpp).
///
/// Each tier knows an interval that holds Z + remainder for certain, in coarse cells. Where no
/// half-integer lies inside, all of the interval is rounded to the same k, and so is the true
/// value; everything else goes to the next tier. So a tier's bound has to be true, and how tight it
/// is decides nothing but time.
enum class RoundingTier {
  floats = 1,  ///< float32 on the 32 + 32 bits of a pair, in vector registers.
  doubles,     ///< Double on the same bits, in vector registers.
  fine,        ///< Double on 96 + 96 bits, one element at a time.
  exact,       ///< MPFR with directed rounding on 96 + 96 bits, then 160 + 160, and so on.
};

/// The scale of a release, in the form that the tiers need.
struct RoundingScale {
  /// \param fine_sigmas  of the terms, up to 16, in fine cells: of sizes in [2^-64, 2^60].
  /// \param coarse_shift  in [0, 62]: 2^shift fine cells are a coarse one.
  RoundingScale(std::span<const double> fine_sigmas, unsigned coarse_shift);
  RoundingScale(double fine_sigma, unsigned coarse_shift)
      : RoundingScale(std::span(&fine_sigma, 1), coarse_shift) {}

  std::size_t terms;
  std::array<double, kMostNoiseTerms> sigmas;         ///< The first `terms` of them.
  std::array<double, kMostNoiseTerms> coarse_sigmas;  ///< sigma / 2^shift, which is a double.
  unsigned shift;
  /// The least number for which the sum of the coarse sigmas' sizes, up to its roundings, is below
  /// 2^size: Z is a sum of terms that may all have one sign.
  int size;
};

/// The answer of a vectorised tier for a chunk: k = round(Z + remainder), and where that is
/// uncertain.
struct RoundedChunk {
  std::array<std::int32_t, kNormalsPerChunk> k;
  /// For pair i: bit 0 for element i, bit 1 for element 512 + i.
  std::array<std::uint32_t, NormalWords::kPairs> undecided;
};

/// The first two tiers, for one term.
/// \param sums  their remainders modulo 2^shift are added before rounding.
using RoundFunction = void(const NormalWords& words, const RoundingScale& scale,
                           std::span<const std::int64_t, kNormalsPerChunk> sums,
                           RoundedChunk& rounded);

/// What the float tier knows of a chunk's Z, as far as its terms have been added: in units of its
/// fixed point, for each element, and for each pair a bound of the distance from the true value.
struct FloatSums {
  std::array<std::int32_t, kNormalsPerChunk> z;
  std::array<float, NormalWords::kPairs> bound;
};

/// The first tier, for several terms: each is added, and then their sum is rounded.
/// \param words  those of term `term`.
using AddTermFunction = void(const NormalWords& words, const RoundingScale& scale, std::size_t term,
                             FloatSums& to);
using RoundTermsFunction = void(const FloatSums& of, const RoundingScale& scale,
                                std::span<const std::int64_t, kNormalsPerChunk> sums,
                                RoundedChunk& rounded);

/// out[i] = floor(sums[i] / 2^shift) + k[i], modulo 2^64. `out` may be `sums`.
using AddFunction = void(const RoundedChunk& rounded, unsigned shift,
                         std::span<const std::int64_t, kNormalsPerChunk> sums,
                         std::span<std::int64_t, kNormalsPerChunk> out);

/// The address of one element: the words of its pair, and which of the two it is.
struct RoundingAddress {
  std::uint64_t pair;
  std::uint32_t radius;
  std::uint32_t angle;
  bool sine;
};

/// 64 further bits of each of a pair's two strings.
struct RoundingBits {
  std::uint64_t radius;
  std::uint64_t angle;
};

/// The bits after the first 32 + 32 and `number` extensions: block `pair` of domain 1 + `number`.
RoundingBits read_extension(std::uint64_t pair, std::uint64_t number, CounterCipher& extensions);

/// The third tier.
/// \param terms  their addresses: of one element in each stream.
/// \param remainder  remainder of the sum modulo 2^shift.
/// \param bits  of each term, the first ones after those of the address.
/// \returns k, if this tier can tell.
using FineFunction = std::optional<std::int64_t>(std::span<const RoundingAddress> terms,
                                                 const RoundingScale& scale,
                                                 std::uint64_t remainder,
                                                 std::span<const RoundingBits> bits);

/// The intermediate values of `floats`, for the tests of its bounds.
struct FloatPairs {
  std::array<float, NormalWords::kPairs> radius, cosine, sine;
};
using FloatPairsFunction = void(const NormalWords& words, FloatPairs& out);

/// The tiers but the last at one level of instructions; all give the same bits.
struct RoundingVariant {
  std::string_view instruction_set;
  RoundFunction* floats;
  RoundFunction* doubles;
  AddTermFunction* add_term;
  RoundTermsFunction* round_terms;
  FineFunction* fine;
  AddFunction* add;
  FloatPairsFunction* float_pairs;
};

/// The variants that instruction_set() allows, the fastest first; never empty.
std::span<const RoundingVariant> rounding_variants();

/// The largest RoundingScale::size that each of the first two tiers computes for.
inline constexpr int kLargestSizeOfFloats = 17;
inline constexpr int kLargestSizeOfDoubles = 26;

/// Bounds of `floats`, found by computing radius_of() for each word that is not refined, and
/// turned() for each of the 2^29 angles of an octant, beside double precision: the float radius r
/// is within 2^-24 (2 r + 0.71) of that of every u in the word's cell, a sine or cosine within 1.73
/// 2^-24 of that of every angle in its cell. The test "the bounds of the float tier hold" does so
/// again, for all words where PRIVGRAD_TEST_LONG is set, and for every 1021st elsewhere.
inline constexpr double kFloatRadiusSlope = 2.0;
inline constexpr double kFloatRadiusOffset = 0.72;
inline constexpr double kFloatAngleError = 1.74;

/// Whether the first two tiers leave a pair alone: u is so near 0 or 1 that its cell is too wide
/// for their bounds (below 2^-12, or within 2^-18 of 1).
inline bool radius_is_coarse(std::uint32_t radius) {
  constexpr std::uint32_t kFirst = std::uint32_t{1} << 20;
  constexpr std::uint32_t kLast = std::uint32_t{1} << 14;
  return radius + kLast < kFirst + kLast;
}

/// With several terms the float tier has a bound for most of these, too: only what is below 2^-20,
/// or within 2^-18 of 1, is left alone. Otherwise b terms would leave b 2^-12 of all elements.
///
/// Where u is in [2^-20, 2^-12), the middle of its cell is a float, and radius_of() is within 2^-24
/// (2 r + 0.71) of its radius. Any u of the cell is within 2^-33 of it, and |dr / du| = 1 / (u r),
/// which is largest where u is smallest, r = 5.265 at 2^-20: 2^-13 / 5.265 = 2.319e-5 more. The test
/// "the bounds of the float tier hold" tries all of these words.
inline constexpr double kFloatCoarseRadiusOffset = 2.32e-5 * 0x1p24 + kFloatRadiusOffset;

inline bool radius_has_no_bound(std::uint32_t radius) {
  constexpr std::uint32_t kFirst = std::uint32_t{1} << 12;
  constexpr std::uint32_t kLast = std::uint32_t{1} << 14;
  return radius + kLast < kFirst + kLast;
}

/// The fourth tier, which always can tell.
/// \param terms  their addresses: of one element in each stream.
/// \param extensions  where each term's further bits are.
/// \returns k modulo 2^64.
std::int64_t round_exactly(std::span<const RoundingAddress> terms, const RoundingScale& scale,
                           std::uint64_t remainder, std::span<CounterCipher* const> extensions);

/// Makes a stream work in another way than the fastest: for tests and measurements.
struct RoundingWay {
  /// Begins there, or at the first one after it that can compute for a scale.
  std::optional<RoundingTier> first{};
  const RoundingVariant* variant = &rounding_variants().front();
};

}  // namespace privgrad::core
