#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace privgrad::core {

/// The random words of 1024 normals: 6 bytes each.
struct NormalWords {
  static constexpr std::size_t kPairs = 512;
  std::array<std::uint64_t, kPairs> high;  ///< 52 bits for the radius, 12 for the angle.
  std::array<std::uint32_t, kPairs> low;   ///< 32 more bits for the angle.
};

inline constexpr std::size_t kNormalsPerChunk = 2 * NormalWords::kPairs;

/// The largest normal, rounded down: sqrt(2 * 117 ln 2), from the smallest u of refined_pair(),
/// 2^-117.
inline constexpr double kLargestNormal = 12.7356;

/// Box-Muller (1958) in double: pair i becomes out[i] = r cos t and out[512 + i] = r sin t, where
///
///     r = sqrt(-2 ln u), u = (w + 1/2) 2^-52, w the 52 leading bits of high[i]
///     t = (pi/4) (k + 1/2) 2^-41, k 41 bits, turned into one of the eight octants by 3 more bits.
///
/// Accuracy: within 2e-14 (relative) of these formulas. Only additions, multiplications, one
/// division and one square root of IEEE 754 double in a fixed order, never contracted into fused
/// operations: the same values on every processor and instruction set, bit for bit.
///
/// \returns whether some pair needs refined_pair(): the 12 leading bits of its high word are 0.
using BoxMullerFunction = bool(const NormalWords& words, std::span<double, kNormalsPerChunk> out);

struct BoxMuller {
  std::string_view instruction_set;
  BoxMullerFunction* transform;
};

/// Those that this processor can run, the fastest first; never empty.
std::span<const BoxMuller> box_muller_variants();

/// Whether a pair's u is so small that 52 bits are too coarse for the tail.
inline bool needs_refinement(std::uint64_t high) { return high >> 52 == 0; }

/// The pair of a high word that needs refinement, with 64 bits more:
/// u = (w + (more + 1/2) 2^-64) 2^-52.
std::pair<double, double> refined_pair(std::uint64_t high, std::uint32_t low, std::uint64_t more);

}  // namespace privgrad::core
