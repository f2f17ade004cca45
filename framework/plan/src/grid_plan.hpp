#pragma once

#include <cstdint>

#include "step_plan.hpp"

namespace privgrad::core {

/// The grid of a started aggregator's recipes: cells per clip norm, 0 for none.
/// \throws PluginError if it is not the same in every step; ManifestError for what has no place on
/// one.
std::uint64_t plan_grid(const StepSetting& setting);

}  // namespace privgrad::core
