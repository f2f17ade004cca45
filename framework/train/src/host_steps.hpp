// The engine that makes steps in this process only.
#pragma once

#include <memory>

#include "step_engine.hpp"

namespace privgrad::core {

/// \returns the engine that makes the plan's steps in this process. It fits the arithmetic of the
///   plan, the presence of noise, and the aggregator's use of differences of gradients.
std::unique_ptr<StepEngine> make_host_steps(StepState& state);

}  // namespace privgrad::core
