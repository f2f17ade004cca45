// The values that a transform has learnt from the training rows, as a model file keeps them.
#pragma once

#include <vector>

#include "privgrad/transform.hpp"

namespace privgrad::core {

/// The values that a transform of a run has learnt and was applied with.
struct FittedTransform {
  bool is_known = false;             ///< False: the transform keeps them to itself.
  std::vector<FittedTensor> values;  ///< Empty for a transform that learns nothing.
};

}  // namespace privgrad::core
