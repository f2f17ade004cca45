// The schedules of a run as schedules.json, for programs that plot them.
#pragma once

#include <cstddef>

#include "privgrad/plan/plan.hpp"
#include "privgrad/record/plan_facts.hpp"
#include "privgrad/statement/outcome.hpp"

namespace privgrad::core {

inline constexpr std::size_t kMostRecordedChanges = 4096;

/// The schedules of a plan in the form of schedules.json:
///
///     {"schedules": 1, "steps": T, "affordable_steps": n,
///      "slots": {"noise_multiplier": {"step": [0, 10], "value": [2.0, 1.5], "exact": true}, ...}}
///
/// A value is valid from its step until the next listed step (steps count from 0). A schedule with
/// more changes than kMostRecordedChanges is sampled at evenly spread steps, including the first
/// and the last, and "exact" is then false.
///
/// With has_prediction(), "predicted_excess" contains the bound of Theorem 4.1 of Hong et al. 2022
/// on the expected excess risk after `step` steps, divided by the excess risk before the first
/// step, and the optimum from which the excess is measured:
///
///     {"optimum": 0.0, "step": [0, 1, ...], "value": [1.0, ...]}
/// \param outcome  contains the chosen noise once a run has ended.
ScheduleRecord schedule_record(const Plan& plan, const Outcome& outcome);

/// Whether the theorem of "predicted_excess" applies: the manifest has the facts about the loss
/// (`utility`), the run is central, and the noise of its steps is independent and known in advance.
bool has_prediction(const Plan& plan);

}  // namespace privgrad::core
