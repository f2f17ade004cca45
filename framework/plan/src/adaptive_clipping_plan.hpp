// Plans adaptive clip norms, which follow a released count: the checks, and the count's noise.
#pragma once

#include <vector>

#include "step_plan.hpp"

namespace privgrad::core {

/// Checks a clipping that adapts its clip norm or scales coordinates. Neither allows noise_std: the
/// noise follows the clip norm, or is in units of scaled gradients. A clip norm that follows a
/// released count must be constant in the manifest, because the clipping sets it after the first
/// step. A clipping that scales coordinates must not release a count.
/// \throws ManifestError if the schedules contradict this; PluginError for a clipping with both
///   abilities.
void check_clipping(const Manifest& manifest, const StepSchedules& schedules,
                    const Components& made);

/// PlanNumbers::count_noise and count_share.
struct CountRelease {
  std::vector<double> noise, share;
};

/// Plans the release of the count; empty if the clip norm is not adaptive.
CountRelease plan_count(const ComponentUse& clipping, const StepPlan& steps,
                        const Components& made);

}  // namespace privgrad::core
