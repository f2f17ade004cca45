// The text of `privgrad ablate`: the plan before the runs and the results after them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/studies/study_plan.hpp"

namespace privgrad::tool {

/// Returns the output of `privgrad ablate` before its first run.
/// \param seconds  the estimated time per run of each arm.
/// \param left  the number of runs still to be made.
std::string study_plan_page(const core::StudyPlan& plan, const std::vector<double>& seconds,
                            std::size_t left, int jobs);

/// Returns the output of `privgrad ablate` at the end: tables, the differences in words, and the
/// cost of choosing.
/// \param results  the value returned by core::results_json().
std::string study_results_page(const nlohmann::json& results);

}  // namespace privgrad::tool
