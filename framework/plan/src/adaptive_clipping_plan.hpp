// Planning for clip norms that follow a released count: the checks, and the noise of the count.
#pragma once

#include <vector>

#include "step_plan.hpp"

namespace privgrad::core {

/// Checks a clipping that adapts. A clip norm that follows a released count begins with one number,
/// which the noise follows. One that scales coordinates can be resumed, and nothing in the plan is in
/// units of gradients where the noise is in units of scaled ones.
/// \throws ManifestError if the schedules say otherwise; PluginError for a clipping that breaks the
///   contract of CoordinateScaling.
void check_clipping(const Manifest& manifest, const StepSchedules& schedules,
                    const Components& made);

/// PlanNumbers::count_noise and count_share.
struct CountRelease {
  std::vector<double> noise, share;
};

/// Empty if the clip norm does not adapt.
CountRelease plan_count(const Manifest& manifest, const StepPlan& steps, const Components& made);

}  // namespace privgrad::core
