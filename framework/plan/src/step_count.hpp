// The number of steps of a plan, and the other values that a theorem chooses for `auto`.
#pragma once

#include <vector>

#include "owner_plan.hpp"
#include "privgrad/plan/components.hpp"

namespace privgrad::core {

/// The public facts before the first step, including the number of steps.
struct StepCount {
  RunFacts facts;
  std::vector<PlannedAuto> auto_values;  ///< The values that theorems chose.
};

/// \param made  the components, not started; this function may start the sampler.
/// \throws ManifestError for `steps: auto` if no theorem chooses the steps, and for any `auto`
///   value if schedules.batch_size is given.
StepCount plan_step_count(const Manifest& manifest, const Setting& setting,
                          const OwnerSetting& owner, const Components& made);

/// The learning rate of every step for `schedules.learning_rate: auto`.
/// \throws ManifestError if no theorem chooses it.
PlannedAuto chosen_learning_rate(const Manifest& manifest, const RunFacts& facts,
                                 const Optimizer& optimizer);

/// The values that the started aggregator chose for its `auto` parameters.
std::vector<PlannedAuto> auto_values_of(const ComponentUse& aggregator, const Components& started);

}  // namespace privgrad::core
