// Reproducible random numbers for synthetic data, the same on every machine; never for noise.
#pragma once

#include <cmath>
#include <cstdint>

/// Random numbers for data that is public by construction. Never for noise that protects privacy:
/// anyone who knows the seed knows every value.
///
/// Uses only operations with unique IEEE 754 rounding (no std:: distribution, no libm function
/// except sqrt), so that every machine draws the same numbers. Source: SplitMix64 (Steele, Lea and
/// Flood 2014); the polar method (Marsaglia and Bray 1964).
class PublicGenerator {
 public:
  /// A separate stream for each (seed, purpose, index), so that a row does not depend on the number
  /// of rows.
  PublicGenerator(std::uint64_t seed, std::uint64_t purpose, std::uint64_t index)
      : state_(mix(mix(mix(seed + kStep) + purpose + kStep) + index + kStep)) {}

  std::uint64_t bits() { return mix(state_ += kStep); }

  /// \returns a multiple of 2^-53 in [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  /// \returns an integer in [0, bound); its bias is below bound / 2^53.
  /// \param bound  > 0.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>(uniform() * static_cast<double>(bound));
  }

  /// \returns a draw of the standard normal distribution.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    for (;;) {
      const double u = 2.0 * uniform() - 1.0;
      const double v = 2.0 * uniform() - 1.0;
      const double s = u * u + v * v;
      if (s >= 1.0 || s == 0.0) continue;
      const double factor = std::sqrt(-2.0 * portable_log(s) / s);
      spare_ = v * factor;
      has_spare_ = true;
      return u * factor;
    }
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;

  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// Returns ln x for normal x > 0, to about 1e-15; used because math libraries differ in the last
  /// digit. With x = m 2^e, m in [sqrt(1/2), sqrt 2) and z = (m-1)/(m+1), ln m = 2 atanh(z). As
  /// |z| <= 0.172, 11 terms of the series leave an error below 1e-17.
  static double portable_log(double x) {
    int exponent = 0;
    double m = std::frexp(x, &exponent);
    if (m < 0.70710678118654752) {
      m *= 2.0;
      --exponent;
    }
    const double z = (m - 1.0) / (m + 1.0);
    double sum = 0.0;
    for (int k = 21; k >= 1; k -= 2) sum = sum * z * z + 1.0 / k;
    return static_cast<double>(exponent) * 0.69314718055994531 + 2.0 * z * sum;
  }

  std::uint64_t state_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};
