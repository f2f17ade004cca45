// How rounded Gaussian noise is computed: fast first, more precisely where that cannot decide.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "privgrad/trust/counter_cipher.hpp"
#include "privgrad/trust/noise_words.hpp"

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
  /// \param fine_sigma  in [2^-64, 2^60], in fine cells.
  /// \param coarse_shift  in [0, 62]: 2^shift fine cells are a coarse one.
  RoundingScale(double fine_sigma, unsigned coarse_shift);

  double sigma;
  unsigned shift;
  double coarse_sigma;  ///< sigma / 2^shift, which is a double.
  int size;             ///< The least number for which coarse_sigma < 2^size.
};

/// The answer of a vectorised tier for a chunk: k = round(Z + remainder), and where that is
/// uncertain.
struct RoundedChunk {
  std::array<std::int32_t, kNormalsPerChunk> k;
  /// For pair i: bit 0 for element i, bit 1 for element 512 + i.
  std::array<std::uint32_t, NormalWords::kPairs> undecided;
};

/// The first two tiers.
/// \param sums  their remainders modulo 2^shift are added before rounding.
using RoundFunction = void(const NormalWords& words, const RoundingScale& scale,
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
/// \param remainder  remainder of the sum modulo 2^shift.
/// \param bits  the first ones after those of the address.
/// \returns k, if this tier can tell.
using FineFunction = std::optional<std::int64_t>(const RoundingAddress& address,
                                                 const RoundingScale& scale,
                                                 std::uint64_t remainder, const RoundingBits& bits);

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

/// The fourth tier, which always can tell.
/// \param extensions  where the pair's further bits are.
/// \returns k modulo 2^64.
std::int64_t round_exactly(const RoundingAddress& address, const RoundingScale& scale,
                           std::uint64_t remainder, CounterCipher& extensions);

/// Makes a stream work in another way than the fastest: for tests and measurements.
struct RoundingWay {
  /// Begins there, or at the first one after it that can compute for a scale.
  std::optional<RoundingTier> first{};
  const RoundingVariant* variant = &rounding_variants().front();
};

}  // namespace privgrad::core
