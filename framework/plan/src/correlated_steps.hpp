// Plans steps whose releases share data or noise: the checks, and the correlated part of the plan.
#pragma once

#include <memory>

#include "step_plan.hpp"

namespace privgrad::core {

/// The correlated part of the plan, with the cost in the order of the started sampler, if the
/// started aggregator's releases share data or noise between steps; else null.
/// \param steps  their values and batch sizes.
/// \throws ManifestError, PrivacyError with the place, for anything that such releases cannot be
///   combined with.
std::shared_ptr<const CorrelatedPlan> plan_correlated_steps(const StepSetting& setting,
                                                            const StepPlan& steps,
                                                            CorrelatedPlanner& planner);

}  // namespace privgrad::core
