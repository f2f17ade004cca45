// The engine that makes steps in this process only.
#pragma once

#include <memory>

#include "step_engine.hpp"

namespace privgrad::core {

/// \returns the engine for the plan's arithmetic, with or without noise, and with or without
///   differences of gradients.
std::unique_ptr<StepEngine> make_host_steps(StepState& state);

}  // namespace privgrad::core
