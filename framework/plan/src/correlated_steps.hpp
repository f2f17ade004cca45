// Plans steps whose releases share data or noise: makes the checks and the plan's correlated part.
#pragma once

#include <memory>

#include "step_plan.hpp"

namespace privgrad::core {

/// The correlated part of the plan, if the started aggregator's releases share data or noise
/// between steps; otherwise null. It contains the cost in the order of the started sampler, if the
/// sampler has a public order.
/// \param steps  the steps' values and batch sizes.
/// \throws ManifestError, PrivacyError with the place, for anything that cannot be combined with
///   such releases.
std::shared_ptr<const CorrelatedPlan> plan_correlated_steps(const StepSetting& setting,
                                                            const StepPlan& steps,
                                                            CorrelatedPlanner& planner);

/// The charges of steps whose batches are drawn by coins, amplified by this sampling.
/// \param plan  without an order.
/// \throws PrivacyError with the place, for a sampler that does not draw by coins, or may draw an
///   example twice in fewer steps than the strategy has bands.
std::vector<Charge> amplified_charges(const Manifest& manifest, const Components& made,
                                      const CorrelatedPlan& plan);

}  // namespace privgrad::core
