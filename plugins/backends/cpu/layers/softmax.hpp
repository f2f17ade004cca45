// The softmax, in float32 and with the same bits on every processor.
#pragma once

#include <cstddef>

namespace privgrad::cpu {

/// Replaces one query's products with the keys by its probabilities.
/// \param open  [places]: 0 for an empty place, which has no key.
void softmax(const float* open, std::size_t places, float scale, float* row);

/// Turns the derivatives with respect to one query's probabilities into derivatives with respect to
/// its products with the keys.
void softmax_backward(const float* probabilities, std::size_t places, float scale, float* row);

/// out = factor softmax(row). A number more than 87 below the largest number, even -infinity,
/// counts as 87 below. All of out is NaN if any number is NaN or +infinity, or all are -infinity.
void scaled_softmax(const float* row, std::size_t count, float factor, float* out);

}  // namespace privgrad::cpu
