// The engine that makes steps in this process only.
#pragma once

#include <memory>

#include "step_engine.hpp"

namespace privgrad::core {

/// \returns the engine that makes the plan's steps in this process: with exact sums, in floating
///   point or on the aggregator's grid; with or without noise; and with differences of gradients if
///   the aggregator uses them.
std::unique_ptr<StepEngine> make_host_steps(StepState& state);

}  // namespace privgrad::core
