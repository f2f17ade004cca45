// One example's gradient of a convolution as whole numbers, summed over the places of its image.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layers/convolution.hpp"

namespace privgrad::cpu {

/// One example's gradient of a convolution's weights, as whole numbers times `step`.
struct WholeRow {
  double step = 0.0;     ///< NaN where the gradient is not finite.
  double squares = 0.0;  ///< The sum of the squares of the whole numbers, exact.
  float largest = 0.0f;  ///< No whole number's size is larger.
};

/// The gradient of the weights is a sum over places, sum over t of delta_t a_t^T with the patches
/// a_t. Delta and the image are rounded to whole numbers so small that their sum over the places
/// stays within int32, and that sum to int16: each relative to its own largest size, so that about
/// 11 bits of each factor are left where there are 576 places, and 12 where there are 64. Like all
/// roundings of terms, these are small beside the terms, not beside a sum in which terms cancel.
/// \param image  [inputs()]; delta [outputs()].
/// \param row  out: [channels(), patch()]; zeros where the gradient is not finite.
WholeRow sum_over_places(const ConvStep& step, const float* image, const float* delta,
                         Scratch& scratch, std::int16_t* row);

}  // namespace privgrad::cpu
