#pragma once

#include <vector>

#include "privgrad/transform.hpp"

// What a transform that is fitted to rows keeps of them.
namespace privgrad::core {

/// What a transform of a run has learnt, as it was applied.
struct FittedTransform {
  bool is_known = false;             ///< False: the transform keeps it to itself.
  std::vector<FittedTensor> values;  ///< Of one that uses none: none.
};

}  // namespace privgrad::core
