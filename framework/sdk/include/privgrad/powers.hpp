// Powers with the same bits on every machine: 1 - base^n, and e^x.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace privgrad {

/// Returns 1 - base^exponent, without cancellation for a base near 1, and with the same bits
/// everywhere: it makes a few products and sums in a fixed order, whereas the C library's results
/// differ between versions and processors. Relative error below 2^-46.
///
/// The recursion follows the binary digits of the exponent. With f(n) = 1 - base^n,
/// f(2n) = f(n) (2 - f(n)) and f(n + 1) = f(n) + (1 - base) (1 - f(n)).
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

/// Returns e^x with the same bits everywhere: it makes sums and products in a fixed order, whereas
/// std::exp chooses at run time among versions that round differently. Use it for values that
/// affect the rest of a run, such as clip norms: the keys of the noise depend on every bit that a
/// run has released. Relative error below 2^-51.
///
/// x = k log 2 + r with whole k and |r| <= log(2) / 2; e^r is computed as its Taylor polynomial of
/// degree 13, whose remainder is below 0.3466^14 / 14! e^0.3466 < 2^-57.
/// \param x  in [-700, 700], so that the result is a normal number.
inline double exponential(double x) {
  constexpr double kLog2 = 0x1.62e42fefa3800p-1;       // 42 bits, so k * kLog2 is exact
  constexpr double kLog2Rest = 0x1.ef35793c76730p-45;  // log 2 = kLog2 + kLog2Rest.
  constexpr int kDegree = 13;
  const double k = std::nearbyint(x * 0x1.71547652b82fep+0);
  const double r = (x - k * kLog2) - k * kLog2Rest;
  double sum = 1.0;
  for (int i = kDegree; i > 0; --i) sum = 1.0 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(k));
}

}  // namespace privgrad
