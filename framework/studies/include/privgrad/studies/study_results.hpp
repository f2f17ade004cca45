// The results of a finished study: results.csv, and results.json with its paired comparisons.
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

/// Whether the study's rule lets it stop: the intervals of all paired differences that it names are
/// narrow enough. Arms that cannot be compared, which more seeds would not change, do not count.
/// \param plan  with a seed_rule.
bool is_precise(const StudyPlan& plan, const StudyRuns& runs);

/// results.json, described in docs/studies.md: means with intervals, differences to the baseline
/// paired by seed, and the cost of choosing the best arm. The same for the same runs, in whatever
/// order and on whatever machines they were made.
nlohmann::json results_json(const StudyPlan& plan, const StudyRuns& runs);

}  // namespace privgrad::core
