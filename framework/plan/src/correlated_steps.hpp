#pragma once

#include <memory>

#include "step_plan.hpp"

namespace privgrad::core {

/// If the started aggregator's releases share data or noise between steps: what they cost in the
/// order of the sampler, which is started as well; else null.
/// \param steps  their values and batch sizes.
/// \throws ManifestError, PrivacyError with the place, for what such releases do not fit together
/// with.
std::shared_ptr<const CorrelatedPlan> plan_correlated_steps(const StepSetting& setting,
                                                            const StepPlan& steps,
                                                            CorrelatedPlanner& planner);

}  // namespace privgrad::core
