// A rough estimate of how long a run will take, from a few steps on invented examples.
#pragma once

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The approximate time of a run's training loop on one thread, in seconds: some steps are made
/// with invented examples of the same shape, and multiplied. Reading and transforming the data is
/// not included. Touches no data.
double estimated_seconds(const Plan& plan);

}  // namespace privgrad::core
