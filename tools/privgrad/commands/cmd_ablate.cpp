#include <nlohmann/json.hpp>

#include <optional>

#include "command.hpp"
#include "feature_cache_call.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/api/study_course.hpp"
#include "privgrad/error.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "result_page.hpp"
#include "study_page.hpp"
#include "study_runs.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Returns a plan as JSON, with the estimated time of a run of each arm.
Json planned(const core::StudyPlan& plan, const std::vector<double>& seconds) {
  Json json = core::to_json(plan);
  for (std::size_t a = 0; a < seconds.size(); ++a)
    json["arms"][a]["estimated_seconds"] = seconds[a];
  return json;
}

int show_dry_run(const api::StudyCourse& course, const Arguments& arguments, int jobs) {
  const std::vector<double> seconds = run_seconds(course.plan);
  if (arguments.has("json")) {
    Json json = planned(course.plan, seconds);
    if (course.search)
      json["search"]["plan"] = planned(*course.search, run_seconds(*course.search));
    print_json(json);
    return 0;
  }
  if (course.search) {
    print(study_plan_page(*course.search, run_seconds(*course.search), course.search->run_count(),
                          jobs));
    print(
        "\nAfter the search, each arm runs with its best candidate (shown here with the "
        "first):\n\n");
  }
  print(study_plan_page(course.plan, seconds, course.plan.run_count(), jobs));
  return 0;
}

int finish(Json results, const core::StudyDirectory& directory, const Arguments& arguments) {
  write_result_page(directory.path(), "study");
  if (arguments.has("json")) {
    results["study_dir"] = directory.path().string();
    print_json(results);
  } else {
    print(study_results_page(results) + "\nresults: " + directory.results_csv().string() + ", " +
          directory.results_json().string() + "\n");
  }
  return 0;
}

int finish_shard(const Shard& shard, const core::StudyPlan& plan,
                 const core::StudyDirectory& directory, const Arguments& arguments) {
  const std::size_t runs = all_runs(plan, shard);
  if (arguments.has("json")) {
    print_json({{"shard", shard.number},
                {"shards", shard.of},
                {"runs", runs},
                {"study_dir", directory.path().string()}});
    return 0;
  }
  print("\nshard " + std::to_string(shard.number) + " of " + std::to_string(shard.of) + ": its " +
        std::to_string(runs) + (runs == 1 ? " run is" : " runs are") +
        " done. Once the other shards are, copy their runs into " +
        (directory.path() / "runs").string() +
        ",\nand the same call without --shard writes the results.\n");
  return 0;
}

/// Refuses studies whose later runs depend on earlier runs: a shard's runs are fixed in advance.
void check_one_round(const core::Study& study) {
  if (!study.search && !study.seed_rule) return;
  throw ConfigError(study.file.string() +
                    ": the runs of a study with a search, or with seeds that follow from its "
                    "results, are only known during the study; leave --shard out");
}

/// Makes the remaining runs of the study.
int make_study(api::StudyCourse& course, const Catalog& catalog, int jobs,
               const Arguments& arguments) {
  const Shard shard = shard_of(arguments);
  if (shard.of > 1) check_one_round(course.study);
  const core::StudyDirectory directory(arguments.has("out")
                                           ? fs::path(arguments.text("out"))
                                           : fs::path("studies") / course.study.name);
  const auto make = [&](const core::StudyPlan& plan, const core::StudyDirectory& place) {
    const std::vector<double> seconds = run_seconds(plan);
    if (!arguments.has("json"))
      print(study_plan_page(plan, seconds, open_runs(plan, place, shard), jobs));
    return make_runs(plan, place, seconds, jobs, arguments, shard) && open_runs(plan, place) == 0;
  };
  std::optional<Json> results = api::carry_out(course, directory, catalog, make);
  if (!results) {
    if (shard.of == 1 || open_runs(course.plan, directory, shard) > 0) return 1;
    return finish_shard(shard, course.plan, directory, arguments);
  }
  return finish(std::move(*results), directory, arguments);
}

int do_ablate(const Arguments& arguments) {
  const int jobs = jobs_of(arguments);
  const host::PluginHost host = load_plugins(arguments);
  api::StudyCourse course = api::plan_course(core::read_study(arguments.operand(0)),
                                             arguments.texts("set"), host.catalog());
  for (const std::string& remark : core::study_remarks(course.plan)) complain("warning", remark);
  if (arguments.has("dry-run")) return show_dry_run(course, arguments, jobs);
  return make_study(course, host.catalog(), jobs, arguments);
}

}  // namespace

Command ablate_command() {
  return {
      .usage =
          {.name = "ablate",
           .summary = "Compares variants of a manifest at the same privacy: runs every arm of a "
                      "study with every\nseed, and leaves tables, paired differences and the cost "
                      "of choosing the best arm.",
           .operands = {"STUDY"},
           .options = {set_option(),
                       {"out", "DIR",
                        "The study's directory; default studies/NAME. An interrupted study is "
                        "continued."},
                       jobs_option(),
                       shard_option(),
                       cache_option(),
                       {"dry-run", "", "Plan and calibrate every arm, show the plan, and stop."},
                       {"json", "",
                        "Print the results (with --dry-run, the plan) as JSON and nothing else on "
                        "standard output."},
                       policy_option(),
                       plugin_dir_option(),
                       quiet_option()},
           .details =
               "Every arm is calibrated to the same epsilon, delta and adjacency before anything "
               "runs. After Ctrl-C\nor a crash the same call continues: it keeps the runs that "
               "ended, and "
               "resumes the others from\ntheir last checkpoints. The format of studies and of "
               "their directory is described in docs/studies.md.\n\n"
               "exit codes: 0 done, 1 interrupted or a run failed, 2 the call, the study or a "
               "manifest is wrong, 3\nrefused for privacy, 4 a file could not be read or written",
           .examples = {"privgrad ablate examples/studies/quickstart.yaml",
                        "privgrad ablate study.yaml --dry-run",
                        "privgrad ablate study.yaml --shard 2/4 --out studies/s",
                        "privgrad ablate study.yaml --set privacy.target_epsilon=2 --out "
                        "studies/e2 --jobs 4"}},
      .run = do_ablate};
}

}  // namespace privgrad::tool
