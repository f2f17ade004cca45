// The grid on which a discrete aggregator's releases lie, checked for a plan.
#pragma once

#include <cstdint>

#include "step_plan.hpp"

namespace privgrad::core {

/// The grid of a started aggregator's recipes: cells per clip norm, 0 for none.
/// \throws PluginError if it is not the same in every step; ManifestError for anything that a grid
///   rules out.
std::uint64_t plan_grid(const StepSetting& setting);

}  // namespace privgrad::core
