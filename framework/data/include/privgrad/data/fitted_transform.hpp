// The values that a transform has learnt from the training rows, as a model file keeps them.
#pragma once

#include <vector>

#include "privgrad/transform.hpp"

namespace privgrad::core {

/// The learnt values with which a transform of a run was applied.
struct FittedTransform {
  bool is_known = false;             ///< False if the transform does not disclose its values.
  std::vector<FittedTensor> values;  ///< Empty for a transform that learns nothing.
};

}  // namespace privgrad::core
