// Converts 64-bit cells to doubles, and cells that wrapped around to signed numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "privgrad/wide_registers.hpp"

namespace privgrad::core {

/// Converts an integer in [-2^51, 2^51) to a double by an addition and a subtraction, which every
/// instruction set can vectorise, unlike a conversion: 1.5 2^52 + k has k in its lowest bits.
__attribute__((always_inline)) inline double shifted_to_double(std::int64_t whole) {
  constexpr std::uint64_t kMagic = 0x4338000000000000;  // the bits of 1.5 * 2^52
  return std::bit_cast<double>(static_cast<std::uint64_t>(whole) + kMagic) - 0x1.8p52;
}

/// \returns 0 if the number is in the range of shifted_to_double(), otherwise another number.
__attribute__((always_inline)) inline std::uint64_t beyond_shifted(std::int64_t whole) {
  return (static_cast<std::uint64_t>(whole) + (std::uint64_t{1} << 51)) >> 52;
}

/// Returns the coarse cell of a release whose sum is known only modulo 2^64 fine cells, as a signed
/// number modulo 2^(64 - shift). A sum that wrapped around gives the same result as any other: the
/// release is a function of sum + Z, and does not reveal on which side of 2^63 the sum was.
inline std::int64_t wrapped(std::int64_t cell, unsigned shift) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(cell) << shift) >> shift;
}

/// doubles[i] = whole[i], rounded to nearest beyond 2^53.
inline void to_doubles(const std::int64_t* whole, std::size_t size, double* doubles) {
  std::uint64_t beyond = 0;
  std::uint64_t* any_beyond = &beyond;
  in_wide_registers([=] {
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < size; ++i) {
      seen |= beyond_shifted(whole[i]);
      doubles[i] = shifted_to_double(whole[i]);
    }
    *any_beyond = seen;
  });
  if (beyond == 0) return;
  for (std::size_t i = 0; i < size; ++i) doubles[i] = static_cast<double>(whole[i]);
}

}  // namespace privgrad::core
