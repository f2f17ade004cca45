// Arithmetic with about 106 bits, as sums of two doubles, with error bounds.
#pragma once

#include "device_code.hpp"

// The bits of the two doubles do not overlap (Dekker 1971; Hida, Li and Bailey 2001). Each
// operation below has a relative error below 2^-101, as long as all numbers are normal: sums 3
// units of 2^-106 (Joldes, Muller and Popescu 2017, algorithm 6), products 5, quotients 15
// (algorithms 12 and 17), roots 2^-102.
namespace privgrad::cuda {

struct Double2 {
  double high, low;
};

/// Returns a + b without error, for any two numbers.
PRIVGRAD_HD Double2 exact_sum(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

/// Returns a + b without error, if a has the larger absolute value.
PRIVGRAD_HD Double2 exact_sum_of_sorted(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

PRIVGRAD_HD Double2 exact_product(double a, double b) {
  const double product = a * b;
  return {product, fused(a, b, -product)};
}

PRIVGRAD_HD Double2 add(Double2 a, Double2 b) {
  Double2 sum = exact_sum(a.high, b.high);
  const Double2 rest = exact_sum(a.low, b.low);
  sum = exact_sum_of_sorted(sum.high, sum.low + rest.high);
  return exact_sum_of_sorted(sum.high, sum.low + rest.low);
}

PRIVGRAD_HD Double2 multiply(Double2 a, Double2 b) {
  const Double2 product = exact_product(a.high, b.high);
  const double rest = fused(a.high, b.low, fused(a.low, b.high, a.low * b.low));
  return exact_sum_of_sorted(product.high, product.low + rest);
}

PRIVGRAD_HD Double2 negative(Double2 a) { return {-a.high, -a.low}; }

/// Returns a 2^exponent, which is exact.
PRIVGRAD_HD Double2 scaled(Double2 a, double power_of_two) {
  return {a.high * power_of_two, a.low * power_of_two};
}

PRIVGRAD_HD Double2 divide(Double2 a, Double2 b) {
  const double first = a.high / b.high;
  const Double2 rest = add(a, negative(multiply(b, {first, 0.0})));
  const double second = rest.high / b.high;
  const Double2 last = add(rest, negative(multiply(b, {second, 0.0})));
  return add(exact_sum_of_sorted(first, second), {last.high / b.high, 0.0});
}

/// Returns the root of a > 0: one Newton step from the root of its high part.
PRIVGRAD_HD Double2 square_root(Double2 a) {
  const double root = square_root(a.high);
  const Double2 rest = add(a, negative(exact_product(root, root)));
  return exact_sum_of_sorted(root, rest.high / (2.0 * root));
}

/// Returns an integer of 96 bits, high 2^64 + low, times 2^-96: exact.
PRIVGRAD_HD Double2 fraction_of(uint32_t high, uint64_t low) {
  // Splits the number into its upper 32 + 21 bits and its lower 43 bits.
  const uint64_t upper = (static_cast<uint64_t>(high) << 21) | (low >> 43);
  const uint64_t lower = low & ((uint64_t{1} << 43) - 1);
  return exact_sum_of_sorted(static_cast<double>(upper) * 0x1p-53,
                             static_cast<double>(lower) * 0x1p-96);
}

/// ln x for x = m 2^exponent with m - 1 = n, m in [sqrt(1/2), sqrt(2)]: 2 atanh(n / (n + 2)).
///
/// With s = n / (n + 2), |s| <= 0.1716, the series is cut off after s^45 / 45, which leaves less
/// than a relative 2^-119. The relative error is below 2^-94 if exponent is 0 (from some 24 times
/// five operations on positive terms), and below 2^-93 otherwise, because the result is then at
/// least 0.34 and each of its two parts is at most twice as large.
PRIVGRAD_HD Double2 logarithm(Double2 n, double exponent) {
  const Double2 s = divide(n, add(n, {2.0, 0.0}));
  const Double2 z = multiply(s, s);
  Double2 sum = {0.0, 0.0};
  for (int k = 45; k >= 1; k -= 2) {
    sum = add(divide({1.0, 0.0}, {static_cast<double>(k), 0.0}), multiply(sum, z));
  }
  const Double2 of_m = multiply(scaled(s, 2.0), sum);
  const Double2 of_two = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};  // ln 2, to 2^-109
  return exponent == 0.0 ? of_m : add(multiply(of_two, {exponent, 0.0}), of_m);
}

/// Returns sin or cos of pi t / 4, for t in [0, 1].
///
/// Taylor series, cut off after the 31st and the 30th power of an angle below 0.7854: less than
/// 2^-120. The error is below 2^-94: absolute for the cosine, which is at least 0.7, and relative
/// for the sine.
PRIVGRAD_HD Double2 sine_or_cosine(Double2 t, bool sine) {
  const Double2 quarter_pi = {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55};  // to 2^-109
  const Double2 angle = multiply(t, quarter_pi);
  const Double2 z = multiply(angle, angle);
  Double2 sum = {1.0, 0.0};
  for (int k = sine ? 30 : 29; k >= 2; k -= 2) {
    const double divisor = static_cast<double>(k * (k + 1));
    sum = add({1.0, 0.0}, negative(multiply(divide(z, {divisor, 0.0}), sum)));
  }
  if (sine) return multiply(angle, sum);
  return add({1.0, 0.0}, negative(multiply(scaled(z, 0.5), sum)));
}

}  // namespace privgrad::cuda
