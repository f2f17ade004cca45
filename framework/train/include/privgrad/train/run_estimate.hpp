// A rough estimate of how long a run will take, from a few steps on invented examples.
#pragma once

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// The approximate time of a run's training loop on one thread, in seconds, extrapolated from some
/// steps on invented examples of the same shape. Excludes reading and transforming the data, and
/// reads no data.
double estimated_seconds(const Plan& plan);

}  // namespace privgrad::core
