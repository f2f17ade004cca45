// The results of a finished study: results.csv, and results.json with its paired comparisons.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/statistics/paired_statistics.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"

namespace privgrad::core {

/// The finished runs of a study: [arm][seed], in the study's order.
using StudyRuns = std::vector<std::vector<RunRecord>>;

/// Returns `runs`, which an arm with the same models made, with the epsilon that `plan` proves.
std::vector<RunRecord> runs_as(const Plan& plan, std::vector<RunRecord> runs);

/// results.csv: one row per run, in the study's order.
std::string results_csv(const StudyPlan& plan, const StudyRuns& runs);

/// The number of seeds of the next look, if this look is not the last and an interval is wider than
/// the study's rule allows. Arms that cannot be compared are ignored, because more seeds would not
/// change that.
/// \returns nothing if no more seeds are required, or without a rule.
std::optional<std::size_t> next_seeds(const StudyPlan& plan, const StudyRuns& runs);

/// results.json, described in docs/studies.md: means with intervals, differences to the baseline
/// paired by seed, and the cost of choosing the best arm. Equal runs give equal results, in any
/// order and on any machines.
nlohmann::json results_json(const StudyPlan& plan, const StudyRuns& runs);

}  // namespace privgrad::core
