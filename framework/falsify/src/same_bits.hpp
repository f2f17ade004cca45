// Compares vectors bit by bit, including NaNs.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace privgrad::core {

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

}  // namespace privgrad::core
