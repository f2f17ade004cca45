// Plans adaptive clip norms, which follow a released count: makes the checks, and plans the noise
// of the count.
#pragma once

#include <vector>

#include "step_plan.hpp"

namespace privgrad::core {

/// Checks an adaptive clipping. A clip norm that follows a released count must begin with a single
/// number, because the noise depends on it. A clipping that scales coordinates must be resumable,
/// and no other value of the plan may be in units of gradients, because the noise is then in units
/// of scaled gradients.
/// \throws ManifestError if the schedules contradict this; PluginError for a clipping that breaks
///   the contract of CoordinateScaling.
void check_clipping(const Manifest& manifest, const StepSchedules& schedules,
                    const Components& made);

/// PlanNumbers::count_noise and count_share.
struct CountRelease {
  std::vector<double> noise, share;
};

/// Plans the release of the count; empty if the clip norm is not adaptive.
CountRelease plan_count(const Manifest& manifest, const StepPlan& steps, const Components& made);

}  // namespace privgrad::core
