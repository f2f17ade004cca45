#include "privgrad/calls/study_course.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "privgrad/calls/study_state.hpp"
#include "privgrad/studies/study_search.hpp"

namespace privgrad::calls {
namespace {

using Json = nlohmann::json;

/// Adds seeds up to the next look if the study's rule wants them.
/// \returns whether it does.
bool add_seeds(core::StudyPlan& plan, const core::StudyDirectory& directory) {
  core::Study& study = *plan.study;
  if (!study.seed_rule || core::is_precise(plan, all_runs(plan, directory))) return false;
  const auto looks = core::looks_between(study.seed_rule->at_least, study.seed_rule->at_most);
  const auto next = std::upper_bound(looks.begin(), looks.end(), study.seeds.size());
  if (next == looks.end()) return false;
  study.seeds = core::first_seeds(*next);
  return true;
}

std::optional<Json> carry_out_plan(core::StudyPlan& plan, const core::StudyDirectory& directory,
                                   const Catalog& catalog, const MakeRuns& make) {
  do {
    prepare_directory(directory, plan, catalog);
    if (left_runs(plan, directory).empty()) continue;
    remove_results(directory);  // they would not be those of this study
    if (!make(plan, directory)) return std::nullopt;
  } while (add_seeds(plan, directory));
  return write_results(plan, directory);
}

}  // namespace

StudyCourse plan_course(core::Study study, std::vector<std::string> overrides,
                        const Catalog& catalog) {
  StudyCourse course;
  if (study.search) {
    course.plan = core::plan_study(core::with_first_candidates(study), overrides, catalog);
    course.search = core::plan_study(core::search_study(study), overrides, catalog);
  } else {
    course.plan = core::plan_study(study, overrides, catalog);
  }
  course.study = std::move(study);
  course.overrides = std::move(overrides);
  return course;
}

std::optional<Json> carry_out(StudyCourse& course, const core::StudyDirectory& directory,
                              const Catalog& catalog, const MakeRuns& make) {
  if (!course.search) return carry_out_plan(course.plan, directory, catalog, make);
  core::StudyPlan& search = *course.search;
  const core::StudyDirectory place(directory.path() / "search");
  if (!carry_out_plan(search, place, catalog, make)) return std::nullopt;
  core::Study chosen = core::with_choices(
      course.study, core::choices_of(course.study, search, all_runs(search, place)));
  course.plan = core::plan_study(std::move(chosen), course.overrides, catalog);
  course.plan.study->scored_rows = core::scored_rows(search, course.plan);
  return carry_out_plan(course.plan, directory, catalog, make);
}

}  // namespace privgrad::calls
