#pragma once

#include <vector>

#include "step_plan.hpp"

namespace privgrad::core {

/// A clip norm that follows a released count has one number to begin with, which the noise follows.
/// \throws ManifestError if the schedules say otherwise.
void check_adaptive_clipping(const Manifest& manifest, const StepSchedules& schedules,
                             const Components& made);

/// PlanNumbers::count_noise and count_share.
struct CountRelease {
  std::vector<double> noise, share;
};

/// Empty if the clip norm does not adapt.
CountRelease plan_count(const Manifest& manifest, const StepPlan& steps, const Components& made);

}  // namespace privgrad::core
