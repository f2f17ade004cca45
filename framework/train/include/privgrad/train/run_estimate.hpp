#pragma once

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// About how long the training loop of a run will take on one thread, in seconds: some steps are
/// made with invented examples of the same shape, and multiplied. Reading and transforming the data
/// is not in it. Touches no data.
double estimated_seconds(const Plan& plan);

}  // namespace privgrad::core
