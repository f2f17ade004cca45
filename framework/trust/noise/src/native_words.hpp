// Random bytes read as little-endian words, on any processor.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "privgrad/trust/noise_words.hpp"

namespace privgrad::core {

inline std::span<std::uint8_t> bytes_of(auto& object) {
  return {reinterpret_cast<std::uint8_t*>(&object), sizeof object};
}

/// Converts a word of a noise stream, where words are little-endian.
inline void to_native(auto& word) {
  if constexpr (std::endian::native == std::endian::big) {
    const auto bytes = bytes_of(word);
    std::reverse(bytes.begin(), bytes.end());
  }
}

static_assert(sizeof(NormalWords) == kNormalsPerChunk * 4, "read as bytes, without padding");

inline void to_native(NormalWords& words) {
  if constexpr (std::endian::native == std::endian::big) {
    for (std::uint32_t& word : words.radius) to_native(word);
    for (std::uint32_t& word : words.angle) to_native(word);
  }
}

}  // namespace privgrad::core
