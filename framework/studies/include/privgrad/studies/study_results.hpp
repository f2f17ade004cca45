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

/// The runs of an arm that trains the same models as another arm: that arm's runs, each with the
/// epsilon that this arm's plan proves.
std::vector<RunRecord> runs_as(const Plan& plan, std::vector<RunRecord> runs);

/// results.csv: one row a run, in the study's order.
std::string results_csv(const StudyPlan& plan, const StudyRuns& runs);

/// The number of seeds that the study's rule requires after these runs: that of its next look,
/// unless the intervals of all named paired differences are narrow enough, or this look is its
/// last. Arms that cannot be compared, which more seeds would not change, do not count.
/// \returns nothing if no more are required, and without a rule.
std::optional<std::size_t> next_seeds(const StudyPlan& plan, const StudyRuns& runs);

/// results.json, described in docs/studies.md: means with intervals, differences to the baseline
/// paired by seed, and the cost of choosing the best arm. It is the same for the same runs, in any
/// order and on any machines.
nlohmann::json results_json(const StudyPlan& plan, const StudyRuns& runs);

}  // namespace privgrad::core
