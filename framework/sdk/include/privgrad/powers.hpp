// 1 - base^n with the same bits on every machine.
#pragma once

#include <bit>
#include <cstdint>

namespace privgrad {

/// 1 - base^exponent, without cancellation for a base near 1, and with the same bits everywhere: a
/// few products and sums in a fixed order, where the C library's functions differ between versions
/// and processors. Relative error below 2^-46.
///
/// From f(n) = 1 - base^n, by the binary digits of the exponent: f(2n) = f(n) (2 - f(n)) and
/// f(n + 1) = f(n) + (1 - base) (1 - f(n)).
/// \param base  in [0, 1].
inline double one_minus_power(double base, std::uint64_t exponent) {
  const double rest = 1.0 - base;
  double f = 0.0;
  for (auto digit = static_cast<int>(std::bit_width(exponent)); digit-- > 0;) {
    f = f * (2.0 - f);
    if ((exponent >> digit & 1) != 0) f = f + rest * (1.0 - f);
  }
  return f;
}

}  // namespace privgrad
