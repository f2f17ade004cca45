#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "framework.hpp"
#include "privgrad/calls/lock_text.hpp"
#include "privgrad/calls/run_directory.hpp"
#include "privgrad/calls/study_state.hpp"
#include "privgrad/error.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/pipeline/plan.hpp"
#include "privgrad/pipeline/run.hpp"
#include "privgrad/report/report.hpp"
#include "privgrad/studies/study.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"

namespace privgrad::python {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The runs of a study in this process, one after the other, each on all threads: rows that are in
/// memory are there for all of them. The command makes each run in a process of its own; what they
/// leave is the same.
class StudyRunner {
 public:
  StudyRunner(const core::StudyPlan& plan, const core::StudyDirectory& directory,
              const Catalog& catalog, int threads, const Watch& watch)
      : plan_(plan), directory_(directory), catalog_(catalog), threads_(threads), watch_(watch) {}

  /// \returns what failed, each a line; nothing that was left when it was asked to stop.
  std::vector<std::string> make(const std::vector<calls::OpenRun>& open) {
    std::vector<std::string> failed;
    const std::size_t all = plan_.arms.size() * plan_.study->seeds.size();
    std::size_t done = all - open.size();
    for (const calls::OpenRun& run : open) {
      if (watch_.stop->load()) break;
      const std::string who = plan_.arms[run.arm].arm->name + " seed " + std::to_string(run.seed);
      try {
        make(run);
      } catch (const Error& problem) {
        failed.push_back(who + ": " + problem.what());
      }
      if (watch_.listener)
        watch_.listener(Json{{"run", who}, {"done", ++done}, {"runs", all}}.dump());
    }
    return failed;
  }

 private:
  void make(const calls::OpenRun& run) const {
    const std::string& arm = plan_.arms[run.arm].arm->name;
    core::RunOptions options;
    options.directory = directory_.run(arm, run.seed);
    options.threads = threads_;
    options.state = calls::default_state_directory();
    options.stop = watch_.stop;
    options.resume = core::can_be_resumed(options);
    if (!options.resume) {
      core::discard_state(options);
      directory_.clear(arm, run.seed);
    }
    const core::Manifest manifest =
        options.resume ? core::load_manifest(options.directory / "manifest.yaml", {}, catalog_)
                       : core::load_manifest(directory_.arm_manifest(arm),
                                             {"seed=" + std::to_string(run.seed)}, catalog_);
    options.lock = calls::lock_text({&manifest});
    const core::Plan plan =
        options.resume ? core::make_resumed_plan(manifest, options.directory, options.state)
                       : core::make_plan(manifest);
    const core::RunResult result = core::run(plan, options);
    if (!result.can_be_resumed) report::write_report(options.directory);
  }

  const core::StudyPlan& plan_;
  const core::StudyDirectory& directory_;
  const Catalog& catalog_;
  int threads_;
  const Watch& watch_;
};

core::Study study_of(const StudyCall& call) {
  return call.is_file ? core::read_study(call.text) : core::parse_study(call.text, call.name);
}

}  // namespace

std::string Framework::ablate(const StudyCall& call, const Watch& watch) const {
  const core::StudyPlan plan = core::plan_study(study_of(call), call.overrides, catalog());
  Json answer{{"notes", core::study_remarks(plan)}, {"failed", Json::array()}};
  if (call.dry_run) {
    answer["plan"] = core::to_json(plan);
    return answer.dump();
  }
  const core::StudyDirectory directory(call.directory ? fs::path(*call.directory)
                                                      : fs::path("studies") / plan.study->name);
  calls::prepare_directory(directory, plan, catalog());
  answer["study_dir"] = directory.path().string();
  const std::vector<calls::OpenRun> open = calls::left_runs(plan, directory);
  if (!open.empty()) {
    calls::remove_results(directory);  // they would not be those of this study
    const int threads = call.threads > 0 ? call.threads : core::available_threads();
    answer["failed"] = StudyRunner(plan, directory, catalog(), threads, watch).make(open);
    answer["left"] = calls::left_runs(plan, directory).size();
    if (answer["left"] != 0) return answer.dump();
  }
  answer["left"] = 0;
  answer["results"] = calls::write_results(plan, directory);
  answer["results"]["study_dir"] = directory.path().string();
  try {
    report::write_report(directory.path());
  } catch (const Error& problem) {
    answer["notes"].push_back(std::string("the study has no report.html: ") + problem.what());
  }
  return answer.dump();
}

}  // namespace privgrad::python
