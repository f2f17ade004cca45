// How rounded Gaussian noise is computed: fast first, then more precisely for undecided elements.
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
/// Each tier computes an interval, in coarse cells, that certainly contains Z + remainder. If the
/// interval contains no half-integer, all of it rounds to the same k, and so does the true value;
/// otherwise the next tier decides. A tier's bound must therefore be true, while its tightness
/// affects only the time.
enum class RoundingTier {
  floats = 1,  ///< float32 on the 32 + 32 bits of a pair, in vector registers.
  doubles,     ///< Double on the same bits, in vector registers.
  fine,        ///< Double on 96 + 96 bits, one element at a time.
  exact,       ///< MPFR with directed rounding on 96 + 96 bits, then 160 + 160, and so on.
};

/// The scale of a release, in the form that the tiers need.
struct RoundingScale {
  /// \param fine_sigmas  up to 16 sigmas, of the terms, in fine cells; sizes in [2^-64, 2^60].
  /// \param coarse_shift  in [0, 62]: 2^shift fine cells make one coarse cell.
  RoundingScale(std::span<const double> fine_sigmas, unsigned coarse_shift);
  RoundingScale(double fine_sigma, unsigned coarse_shift)
      : RoundingScale(std::span(&fine_sigma, 1), coarse_shift) {}

  std::size_t terms;
  std::array<double, kMostNoiseTerms> sigmas;         ///< Only the first `terms` are in use.
  std::array<double, kMostNoiseTerms> coarse_sigmas;  ///< sigma / 2^shift, which is a double.
  unsigned shift;
  /// The smallest integer for which the sum of the absolute coarse sigmas, up to rounding errors,
  /// is below 2^size. The absolute values count because all terms of Z may have the same sign.
  int size;
};

/// The result of a vectorised tier for a chunk: k = round(Z + remainder), and which elements are
/// undecided.
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

/// The float tier's sum of the terms that have been added so far, for a chunk: each element's Z in
/// fixed-point units, and each pair's bound on the distance from the true value.
struct FloatSums {
  std::array<std::int32_t, kNormalsPerChunk> z;
  std::array<float, NormalWords::kPairs> bound;
};

/// The first tier, for several terms: adds one term; the sum of the terms is rounded later.
/// \param words  the random words of term `term`.
using AddTermFunction = void(const NormalWords& words, const RoundingScale& scale, std::size_t term,
                             FloatSums& to);
using RoundTermsFunction = void(const FloatSums& of, const RoundingScale& scale,
                                std::span<const std::int64_t, kNormalsPerChunk> sums,
                                RoundedChunk& rounded);

/// out[i] = floor(sums[i] / 2^shift) + k[i], modulo 2^64. `out` may be `sums`.
using AddFunction = void(const RoundedChunk& rounded, unsigned shift,
                         std::span<const std::int64_t, kNormalsPerChunk> sums,
                         std::span<std::int64_t, kNormalsPerChunk> out);

/// The address of one element: the words of its pair, and which of the pair's two elements it is.
struct RoundingAddress {
  std::uint64_t pair;
  std::uint32_t radius;
  std::uint32_t angle;
  bool sine;
};

/// The next 64 bits of each of a pair's two strings.
struct RoundingBits {
  std::uint64_t radius;
  std::uint64_t angle;
};

/// Returns the bits that follow the first 32 + 32 bits and `number` extensions: block `pair` of
/// domain 1 + `number`.
RoundingBits read_extension(std::uint64_t pair, std::uint64_t number, CounterCipher& extensions);

/// The third tier.
/// \param terms  the addresses of one element, one in each stream.
/// \param remainder  the remainder of the sum modulo 2^shift.
/// \param bits  for each term, the first bits after the bits of its address.
/// \returns k, or nothing if this tier cannot decide the element.
using FineFunction = std::optional<std::int64_t>(std::span<const RoundingAddress> terms,
                                                 const RoundingScale& scale,
                                                 std::uint64_t remainder,
                                                 std::span<const RoundingBits> bits);

/// The intermediate values of `floats`, for the tests of its bounds.
struct FloatPairs {
  std::array<float, NormalWords::kPairs> radius, cosine, sine;
};
using FloatPairsFunction = void(const NormalWords& words, FloatPairs& out);

/// All tiers except the last at one instruction level; all levels give the same bits.
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

/// The largest RoundingScale::size that each of the first two tiers can handle.
inline constexpr int kLargestSizeOfFloats = 17;
inline constexpr int kLargestSizeOfDoubles = 26;

/// Error bounds of `floats`. They were found by comparisons with double precision, of radius_of()
/// for each word that is not radius_is_coarse(), and of turned() for each of the 2^29 angles of an
/// octant. The float radius r is within 2^-24 (2 r + 0.71) of the radius of every u in the word's
/// cell; a sine or cosine is within 1.73 2^-24 of its value at every angle in its cell. The test
/// "the bounds of the float tier hold" repeats this for all words if PRIVGRAD_TEST_LONG is set,
/// otherwise for every 1021st.
inline constexpr double kFloatRadiusSlope = 2.0;
inline constexpr double kFloatRadiusOffset = 0.72;
inline constexpr double kFloatAngleError = 1.74;

/// Whether the first two tiers skip a pair because u is so near 0 or 1 that its cell is too wide
/// for their bounds (u below 2^-12, or within 2^-18 of 1).
inline bool radius_is_coarse(std::uint32_t radius) {
  constexpr std::uint32_t kFirst = std::uint32_t{1} << 20;
  constexpr std::uint32_t kLast = std::uint32_t{1} << 14;
  return radius + kLast < kFirst + kLast;
}

/// With several terms the float tier has an error bound for most of these u, too. It skips only u
/// below 2^-20 or within 2^-18 of 1. If it skipped all of them, b terms would leave a share
/// b 2^-12 of all elements undecided.
///
/// Where u is in [2^-20, 2^-12), the middle of its cell is a float, and radius_of() is within
/// 2^-24 (2 r + 0.71) of its radius. Any u of the cell is within 2^-33 of the middle, and
/// |dr / du| = 1 / (u r), which is largest where u is smallest, r = 5.265 at 2^-20: this adds
/// 2^-13 / 5.265 = 2.319e-5. The test "the bounds of the float tier hold" tries all these words.
inline constexpr double kFloatCoarseRadiusOffset = 2.32e-5 * 0x1p24 + kFloatRadiusOffset;

inline bool radius_has_no_bound(std::uint32_t radius) {
  constexpr std::uint32_t kFirst = std::uint32_t{1} << 12;
  constexpr std::uint32_t kLast = std::uint32_t{1} << 14;
  return radius + kLast < kFirst + kLast;
}

/// The fourth tier, which decides every element.
/// \param terms  the addresses of one element, one in each stream.
/// \param extensions  the sources of each term's further bits.
/// \returns k modulo 2^64.
std::int64_t round_exactly(std::span<const RoundingAddress> terms, const RoundingScale& scale,
                           std::uint64_t remainder, std::span<CounterCipher* const> extensions);

/// Makes a stream compute in a way other than the fastest, for tests and measurements.
struct RoundingWay {
  /// The first tier to use, or the next tier that can handle the scale.
  std::optional<RoundingTier> first{};
  const RoundingVariant* variant = &rounding_variants().front();
};

}  // namespace privgrad::core
