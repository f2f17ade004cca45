// The engine that makes steps in this process alone.
#pragma once

#include <memory>

#include "step_engine.hpp"

namespace privgrad::core {

/// \returns the engine that sums up, in this process, what the plan's steps release: gradients,
///   exactly or in floating point or on the aggregator's grid, with or without noise, or
///   differences of gradients beside them.
std::unique_ptr<StepEngine> make_host_steps(StepState& state);

}  // namespace privgrad::core
