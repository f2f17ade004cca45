// The engine that makes steps in this process only.
#pragma once

#include <memory>

#include "step_engine.hpp"

namespace privgrad::core {

/// \returns the engine that, in this process, makes the sums that the plan's steps release: of
///   gradients, exactly, in floating point or on the aggregator's grid, with or without noise, or
///   together with differences of gradients.
std::unique_ptr<StepEngine> make_host_steps(StepState& state);

}  // namespace privgrad::core
