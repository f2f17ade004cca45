// Products of integers and constants in fixed point, for the running sums of exact correlated
// releases.
#pragma once

#include <cmath>
#include <cstdint>

#include "privgrad/error.hpp"

namespace privgrad::core {

__extension__ using Int128 = __int128;
__extension__ using UnsignedInt128 = unsigned __int128;

/// Returns a constant in fixed point with 60 fractional bits, rounded to nearest.
/// \throws ConfigError unless its absolute value is below 4.
inline std::int64_t fixed(double constant) {
  if (!(std::fabs(constant) < 4.0)) {
    throw ConfigError(
        "a recipe multiplies earlier data by 4 or more, which exact arithmetic has no "
        "place for; use aggregator.arithmetic: float");
  }
  return std::llrint(std::ldexp(constant, 60));
}

/// constant * value / 2^60, rounded down, modulo 2^64.
inline std::int64_t times(std::int64_t constant, std::int64_t value) {
  return static_cast<std::int64_t>((static_cast<Int128>(constant) * value) >> 60);
}

/// constant * value / 2^60, rounded down, modulo 2^128.
inline Int128 times(std::int64_t constant, Int128 value) {
  // value = high 2^64 + low. Taken as unsigned, a negative constant is 2^64 too large in its
  // product with low.
  const auto high = static_cast<std::int64_t>(value >> 64);
  const auto low = static_cast<std::uint64_t>(value);
  const Int128 upper = static_cast<Int128>(high) * constant;
  const UnsignedInt128 too_large =
      static_cast<UnsignedInt128>(low) * static_cast<std::uint64_t>(constant);
  const std::uint64_t excess = constant < 0 ? low : 0;
  const Int128 lower = static_cast<Int128>(too_large - (static_cast<UnsignedInt128>(excess) << 64));
  return static_cast<Int128>((static_cast<UnsignedInt128>(upper) << 4) +
                             static_cast<UnsignedInt128>(lower >> 60));
}

/// Whether a constant with 60 fractional bits is in [0, 1), so that it fits 64 fractional bits;
/// its products then need no shifts.
inline bool is_fraction(std::int64_t constant) { return constant >= 0 && constant >> 60 == 0; }
inline std::uint64_t fraction(std::int64_t constant) {
  return static_cast<std::uint64_t>(constant) << 4;
}

/// fraction * value / 2^64, rounded down, modulo 2^128: equals times(constant, value).
inline Int128 times_fraction(std::uint64_t fraction, Int128 value) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  const auto low = static_cast<std::uint64_t>(value);
  // Taken as unsigned, a negative value's high word is 2^64 too large.
  const std::uint64_t excess = value < 0 ? fraction : 0;
  const UnsignedInt128 upper = static_cast<UnsignedInt128>(high) * fraction;
  const UnsignedInt128 lower = static_cast<UnsignedInt128>(low) * fraction;
  return static_cast<Int128>(upper - (static_cast<UnsignedInt128>(excess) << 64) + (lower >> 64));
}

/// Like times_fraction(), but rounded up: -times(-constant, value).
inline Int128 times_fraction_up(std::uint64_t fraction, Int128 value) {
  const std::uint64_t rest = static_cast<std::uint64_t>(value) * fraction;
  return times_fraction(fraction, value) + (rest != 0 ? 1 : 0);
}

inline std::int64_t times_fraction(std::uint64_t fraction, std::int64_t value) {
  return static_cast<std::int64_t>((static_cast<Int128>(value) * fraction) >> 64);
}

inline std::int64_t times_fraction_up(std::uint64_t fraction, std::int64_t value) {
  const std::uint64_t rest = static_cast<std::uint64_t>(value) * fraction;
  return times_fraction(fraction, value) + (rest != 0 ? 1 : 0);
}

}  // namespace privgrad::core
