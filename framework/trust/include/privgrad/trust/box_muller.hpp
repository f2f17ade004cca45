#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace privgrad::core {

/// The random words of 1024 normals: 4 bytes each.
struct NormalWords {
  static constexpr std::size_t kPairs = 512;
  std::array<std::uint32_t, kPairs> radius;
  std::array<std::uint32_t, kPairs> angle;
};

inline constexpr std::size_t kNormalsPerChunk = 2 * NormalWords::kPairs;

/// The largest normal, rounded down: sqrt(2 * 97 ln 2), from the smallest u of refined_pair(),
/// 2^-97.
inline constexpr double kLargestNormal = 11.596;

/// Box-Muller (1958) in float32: pair i becomes out[i] = r cos t and out[512 + i] = r sin t, where
///
///     r = sqrt(-2 ln u), u = (radius[i] + 1/2) 2^-32
///     t = (pi/4) (k + 1/2) 2^-29, k the 29 low bits of angle[i], turned into one of the eight
///         octants by the 3 others.
///
/// Accuracy: within 3e-7 (relative) of these formulas, two or three units in the last place, also
/// where u is next to 1 and r next to 0. Only IEEE 754 operations on floats, fused multiply-adds
/// among them, in a fixed order: the same values on every processor and instruction set, bit for
/// bit.
///
/// \returns whether some pair needs refined_pair().
using BoxMullerFunction = bool(const NormalWords& words, std::span<float, kNormalsPerChunk> out);

struct BoxMuller {
  std::string_view instruction_set;
  BoxMullerFunction* transform;
};

/// Those that instruction_set() allows, the fastest first; never empty.
std::span<const BoxMuller> box_muller_variants();

/// Whether a pair's u is so near 0 or 1 that 32 bits are too coarse for it: its 12 leading bits are
/// all 0 or all 1.
inline bool needs_refinement(std::uint32_t radius) {
  return radius + (std::uint32_t{1} << 20) < std::uint32_t{1} << 21;
}

/// The pair of a radius word that needs refinement, with 64 bits more, in double and then rounded:
/// u = (radius + (more + 1/2) 2^-64) 2^-32.
std::pair<float, float> refined_pair(std::uint32_t radius, std::uint32_t angle, std::uint64_t more);

}  // namespace privgrad::core
