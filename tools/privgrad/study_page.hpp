#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/studies/study_plan.hpp"

namespace privgrad::tool {

/// What `privgrad ablate` prints before it runs anything.
/// \param seconds  estimated, per run of each arm.
/// \param left  runs that are to be made.
std::string study_plan_page(const core::StudyPlan& plan, const std::vector<double>& seconds,
                            std::size_t left, int jobs);

/// What it prints at the end: tables, the differences in words, and what choosing costs.
/// \param results  as of core::results_json().
std::string study_results_page(const nlohmann::json& results);

}  // namespace privgrad::tool
