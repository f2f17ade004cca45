#pragma once

#include <vector>

#include "owner_plan.hpp"
#include "privgrad/plan/components.hpp"

namespace privgrad::core {

/// What is public before the first step, the number of steps among it.
struct StepCount {
  RunFacts facts;
  std::vector<PlannedAuto> auto_values;  ///< If a theorem chose the steps.
};

/// \param made  not started; its sampler is afterwards.
/// \throws ManifestError for `steps: auto` that no theorem says.
StepCount plan_step_count(const Manifest& manifest, const Setting& setting,
                          const OwnerSetting& owner, const Components& made);

/// The learning rate of every step that `schedules.learning_rate: auto` stands for.
/// \throws ManifestError if no theorem says it.
PlannedAuto chosen_learning_rate(const Manifest& manifest, const RunFacts& facts,
                                 const Optimizer& optimizer);

/// What started components took for their parameters that are `auto`.
std::vector<PlannedAuto> auto_values_of(const Manifest& manifest, const Components& started);

}  // namespace privgrad::core
