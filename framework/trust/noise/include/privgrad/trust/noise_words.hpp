// How the random words of a chunk of Gaussian noise are laid out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace privgrad::core {

/// The random words of 1024 normals: 4 bytes each.
struct NormalWords {
  static constexpr std::size_t kPairs = 512;
  std::array<std::uint32_t, kPairs> radius;
  std::array<std::uint32_t, kPairs> angle;
};

inline constexpr std::size_t kNormalsPerChunk = 2 * NormalWords::kPairs;

}  // namespace privgrad::core
