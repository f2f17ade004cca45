// One example's gradient of a convolution in integers, summed over the places of its image.
#pragma once

#include <cstdint>

#include "layers/convolution.hpp"

namespace privgrad::cpu {

/// One example's gradient of a convolution's weights, as integers times `step`.
struct WholeRow {
  double step = 0.0;     ///< NaN if the gradient is not finite.
  double squares = 0.0;  ///< The sum of the squares of the integers, exact.
  float largest = 0.0f;  ///< An upper bound on the integers' absolute values.
};

/// Computes the gradient of the weights, the sum over places t of delta_t a_t^T with the
/// patches a_t. Delta and the image are rounded to integers small enough for the sum over the
/// places to fit in int32. The sum is rounded to int16. Each rounding is relative to the
/// largest absolute value, so about 11 bits of each factor remain for 576 places, and 12 bits
/// for 64. Rounding errors of terms are small relative to the terms, but not to a sum in which
/// terms cancel.
/// \param image, delta  [inputs()] and [outputs()].
/// \param row  out: [channels(), patch()]; zeros if the gradient is not finite.
WholeRow sum_over_places(const ConvStep& step, const float* image, const float* delta,
                         Scratch& scratch, std::int16_t* row);

}  // namespace privgrad::cpu
