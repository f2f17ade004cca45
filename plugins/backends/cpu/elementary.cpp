#include "elementary.hpp"

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace privgrad::cpu {
namespace {

// ln 2 = kLn2High + kLn2Low; the high part ends in 21 zeros, so its products with exponents are
// exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// 2^exponent of a normal number.
double power_of_two(std::int64_t exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

}  // namespace

/// x = n ln 2 + r with |r| <= ln(2) / 2 (Cody and Waite 1980); e^r by its series up to r^13, whose
/// remainder is below 2^-57.
double exp_fixed(double x) {
  if (x != x) return x;
  if (x > 709.8) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0.0;
  constexpr double kRound = 0x1.8p52;  // adding it rounds to whole numbers
  const double n = (x * 0x1.71547652b82fep0 + kRound) - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = 1.0 + (r + r * r * p);
  // In two steps, because 2^n alone may be outside the range of normal numbers.
  const auto whole = static_cast<std::int64_t>(n);
  const std::int64_t half = whole / 2;
  return p * power_of_two(half) * power_of_two(whole - half);
}

/// 1 + x = 2^k (1 + f) with f from sqrt(1/2) - 1 to sqrt(2) - 1, and with s = f / (2 + f):
///   ln(1 + f) = 2 atanh(s) = 2 s + s R,  R = 2 (s^2/3 + s^4/5 + ...),  2 s = f - s f,
/// the series up to s^20, whose remainder is below 2^-58 of the sum.
double log1p_fixed(double x) {
  if (!(x >= 0.0)) return std::numeric_limits<double>::quiet_NaN();
  if (x > std::numeric_limits<double>::max()) return x;
  double f = x, missing = 0.0;
  std::int64_t k = 0;
  if (x > 0x1.a8p-2) {
    const double sum = 1.0 + x;
    // The addition's rounding error, as a share of the sum.
    missing = (x < 1.0 ? x - (sum - 1.0) : 1.0 - (sum - x)) / sum;
    const auto bits = std::bit_cast<std::uint64_t>(sum);
    k = static_cast<std::int64_t>(bits >> 52) - 1023;
    double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (mantissa > 0x1.6a09e667f3bcdp0) {
      mantissa *= 0.5;
      ++k;
    }
    f = mantissa - 1.0;
  }
  const double s = f / (2.0 + f);
  const double z = s * s;
  double rest = 2.0 / 21.0;
  for (const double term : {2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0,
                            2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0}) {
    rest = rest * z + term;
  }
  rest *= z;
  const auto power = static_cast<double>(k);
  return power * kLn2High + (f - (s * (f - rest) - (power * kLn2Low + missing)));
}

}  // namespace privgrad::cpu
