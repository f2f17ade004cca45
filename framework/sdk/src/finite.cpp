#include "privgrad/finite.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "privgrad/wide_registers.hpp"

namespace privgrad {

bool all_finite(std::span<const float> values) noexcept {
  // Compilers do not vectorise a loop that may end at every element, so it may end only after each
  // block.
  constexpr std::size_t kBlock = 4096;
  constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinite or NaN
  while (!values.empty()) {
    const auto block = values.first(std::min(kBlock, values.size()));
    std::uint32_t bad = 0;
    in_wide_registers([&] {
      for (const float value : block) {
        bad |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1u : 0u;
      }
    });
    if (bad != 0) return false;
    values = values.subspan(block.size());
  }
  return true;
}

}  // namespace privgrad
