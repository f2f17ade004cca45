// The number of steps of a plan, and the other values that `auto` leaves to a theorem.
#pragma once

#include <vector>

#include "owner_plan.hpp"
#include "privgrad/plan/components.hpp"

namespace privgrad::core {

/// The public facts before the first step, including the number of steps.
struct StepCount {
  RunFacts facts;
  std::vector<PlannedAuto> auto_values;  ///< Set if a theorem chose the steps.
};

/// \param made  not started; afterwards its sampler is.
/// \throws ManifestError for `steps: auto` where no theorem chooses them.
StepCount plan_step_count(const Manifest& manifest, const Setting& setting,
                          const OwnerSetting& owner, const Components& made);

/// The learning rate of every step that `schedules.learning_rate: auto` stands for.
/// \throws ManifestError if no theorem chooses it.
PlannedAuto chosen_learning_rate(const Manifest& manifest, const RunFacts& facts,
                                 const Optimizer& optimizer);

/// The values that started components took for their parameters that are `auto`.
std::vector<PlannedAuto> auto_values_of(const Manifest& manifest, const Components& started);

}  // namespace privgrad::core
