// Rounds floats to integers in kernels, with the same bits as the backend `cpu`.
#pragma once

#include "device_code.hpp"

// The counterpart of plugins/backends/cpu/cells.hpp.
namespace privgrad::cuda {

/// rint or trunc of (x * shift) * factor.
struct Rounding {
  float shift = 0.0f;   ///< A power of two that exactly scales the largest x to near 1.
  float factor = 0.0f;  ///< 0: every result is 0.
  float middle = 0.0f;  ///< 1.5 * 2^23: adding and subtracting it rounds to nearest; 0 truncates.
};

constexpr float kToNearest = 0x1.8p23f;

/// Returns floor(log2(x)) of a finite number above 0.
PRIVGRAD_HD int32_t binary_exponent(float x) {
  const uint32_t bits = bits_of(x) & 0x7fffffffu;
  if (bits >= 0x00800000u) return static_cast<int32_t>(bits >> 23) - 127;
  int32_t exponent = -150;
  for (uint32_t rest = bits; rest != 0; rest >>= 1) ++exponent;
  return exponent;
}

/// Returns a rounding to factor * x.
/// \param factor  >= 0; factor * largest is at most 2^14, or 2^28 if `truncates`, up to rounding in
///   double.
/// \param largest  the largest absolute x, finite.
PRIVGRAD_HD Rounding make_rounding(double factor, float largest, bool truncates) {
  if (!(largest > 0.0f) || !(factor > 0.0)) return {};
  const int32_t exponent = smaller(larger(-binary_exponent(largest), -126), 127);
  return {float_power_of_two(exponent), static_cast<float>(factor * double_power_of_two(-exponent)),
          truncates ? 0.0f : kToNearest};
}

/// Returns x rounded; 0 if the rounding's factor is 0, even if x is not finite.
PRIVGRAD_HD int32_t rounded(float x, const Rounding& rounding) {
  if (rounding.factor == 0.0f) return 0;
  const float product = (x * rounding.shift) * rounding.factor;
  return static_cast<int32_t>((product + rounding.middle) - rounding.middle);
}

/// Returns the exact factor of a rounding.
PRIVGRAD_HD double factor_of(const Rounding& rounding) {
  return static_cast<double>(rounding.shift) * static_cast<double>(rounding.factor);
}

/// Returns trunc(scale * value); the product is rounded to double, and must be below 2^31 in size.
PRIVGRAD_HD int32_t truncated(double scale, float value) {
  return static_cast<int32_t>(scale * static_cast<double>(value));
}

/// Returns trunc(factor * value); the product is rounded to float32, and must be below 2^31 in
/// size.
PRIVGRAD_HD int32_t truncated(float factor, int16_t value) {
  return static_cast<int32_t>(factor * static_cast<float>(value));
}

/// How one example's numbers are rounded in a convolution.
struct PlaceRoundings {
  Rounding of_image, of_delta;
};

/// How one example's numbers are rounded in a dense layer.
struct DenseRoundings {
  Rounding of_inputs, of_units, of_biases;
};

}  // namespace privgrad::cuda
