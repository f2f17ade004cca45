#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "privgrad/statistics/paired_statistics.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"

namespace privgrad::core {

/// The finished runs of a study: [arm][seed], in the study's order.
using StudyRuns = std::vector<std::vector<RunRecord>>;

/// results.csv: one row a run, in the study's order.
std::string results_csv(const StudyPlan& plan, const StudyRuns& runs);

/// results.json, described in docs/studies.md: means with intervals, differences to the baseline
/// paired by seed, and what choosing the best arm costs. The same for the same runs, whatever order
/// and machine they were made in.
nlohmann::json results_json(const StudyPlan& plan, const StudyRuns& runs);

}  // namespace privgrad::core
