#include "privgrad/api/study_course.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "privgrad/api/study_state.hpp"
#include "privgrad/studies/scored_rows.hpp"
#include "privgrad/studies/study_search.hpp"

namespace privgrad::api {
namespace {

using Json = nlohmann::json;

/// Adds seeds up to the next look if the study's rule requires them.
/// \returns whether seeds were added.
bool add_seeds(core::StudyPlan& plan, const core::StudyDirectory& directory) {
  const auto wanted = core::next_seeds(plan, all_runs(plan, directory));
  if (wanted) plan.study->seeds = core::first_seeds(*wanted);
  return wanted.has_value();
}

std::optional<Json> carry_out_plan(core::StudyPlan& plan, const core::StudyDirectory& directory,
                                   const Catalog& catalog, const MakeRuns& make) {
  do {
    prepare_directory(directory, plan, catalog);
    if (left_runs(plan, directory).empty()) continue;
    remove_results(directory);  // the results are of an earlier state of the study
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
    course.search = std::make_shared<core::StudyPlan>(
        core::plan_study(core::search_study(study), overrides, catalog));
  } else {
    course.plan = core::plan_study(study, overrides, catalog);
  }
  course.question = core::study_yaml(study, overrides);
  course.study = std::move(study);
  course.overrides = std::move(overrides);
  return course;
}

std::optional<Json> carry_out(StudyCourse& course, const core::StudyDirectory& directory,
                              const Catalog& catalog, const MakeRuns& make) {
  keep_question(directory, course.question);
  if (!course.search) return carry_out_plan(course.plan, directory, catalog, make);
  core::StudyPlan& search = *course.search;
  const core::StudyDirectory place(directory.path() / "search");
  if (!carry_out_plan(search, place, catalog, make)) return std::nullopt;
  core::Study chosen = core::with_choices(
      course.study, core::choices_of(course.study, search, all_runs(search, place)));
  course.plan = core::plan_study(std::move(chosen), course.overrides, catalog);
  course.plan.search = course.search;
  course.plan.study->scored_rows = core::scored_rows(search, course.plan);
  return carry_out_plan(course.plan, directory, catalog, make);
}

}  // namespace privgrad::api
