#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework.hpp"
#include "keeping.hpp"
#include "privgrad/api/lock_text.hpp"
#include "privgrad/api/run_directory.hpp"
#include "privgrad/api/study_course.hpp"
#include "privgrad/api/study_state.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/error.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/report/report.hpp"
#include "privgrad/studies/study.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/train/resumed_plan.hpp"
#include "privgrad/train/run_estimate.hpp"

namespace privgrad::python {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Makes the runs of a study in this process, several at a time, each with its own threads; all can
/// use rows in memory. The command makes each run in its own process, with the same results.
class StudyRunner {
 public:
  /// \param threads  the threads of each run.
  StudyRunner(const core::StudyPlan& plan, const core::StudyDirectory& directory,
              const Catalog& catalog, int threads, const Keeping& keeping, const Watch& watch)
      : plan_(plan),
        directory_(directory),
        catalog_(catalog),
        threads_(threads),
        keeping_(keeping),
        watch_(watch) {}

  /// \param jobs  runs at a time.
  /// \returns the failures, one line each, in the order of the runs; runs that were left out
  ///   because of a stop are not failures.
  std::vector<std::string> make(const std::vector<api::OpenRun>& open, int jobs) {
    std::vector<std::string> problems(open.size());
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i = next++; i < open.size() && !watch_.stop->load(); i = next++)
        problems[i] = problem_of(open[i]);
    };
    done_ = all() - open.size();
    {
      std::vector<std::jthread> others;
      for (int job = 1; job < jobs; ++job) others.emplace_back(work);
      work();
    }
    std::erase(problems, "");
    return problems;
  }

 private:
  std::size_t all() const { return plan_.run_count(); }

  /// Makes a run and reports it. \returns the reason if it failed; otherwise "".
  std::string problem_of(const api::OpenRun& run) {
    const std::string who = plan_.arms[run.arm].arm->name + " seed " + std::to_string(run.seed);
    std::string problem;
    try {
      make(run);
    } catch (const std::exception& failure) {
      problem = who + ": " + failure.what();
    }
    if (watch_.listener) {
      const std::lock_guard hold(telling_);
      watch_.listener(Json{{"run", who}, {"done", ++done_}, {"runs", all()}}.dump());
    }
    return problem;
  }

  /// Makes a run. An interrupted run that cannot be resumed begins anew: its noise is seeded.
  void make(const api::OpenRun& run) const {
    const std::string& arm = plan_.arms[run.arm].arm->name;
    core::RunOptions options;
    options.directory = directory_.run(arm, run.seed);
    options.threads = threads_;
    options.state = api::default_state_directory();
    options.features = keeping_.features();
    options.stop = watch_.stop;
    options.resume = core::can_be_resumed(options);
    try {
      if (options.resume) return make(run, arm, options);
    } catch (const PrivacyError&) {
      options.resume = false;
    }
    core::discard_state(options);
    directory_.clear(arm, run.seed);
    make(run, arm, options);
  }

  void make(const api::OpenRun& run, const std::string& arm, core::RunOptions options) const {
    core::Manifest manifest =
        options.resume ? core::load_manifest(options.directory / "manifest.yaml", {}, catalog_)
                       : core::load_manifest(directory_.arm_manifest(arm),
                                             {"seed=" + std::to_string(run.seed)}, catalog_);
    keeping_.of_streamed_rows(manifest);
    options.lock = api::lock_text({&manifest});
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
  const Keeping& keeping_;
  const Watch& watch_;
  std::mutex telling_;
  std::size_t done_ = 0;
};

/// The division of the cores.
struct Shares {
  int jobs;     ///< Runs at a time.
  int threads;  ///< Threads per run.
};

/// Divides the cores. By default, as many runs as cores are made at a time, so that no core idles
/// in the serial parts of a run.
/// \param open  the number of runs to make, at least 1.
Shares shares_of(const StudyCall& call, std::size_t open) {
  const int cores = core::available_threads();
  const int most = static_cast<int>(std::min<std::size_t>(open, 4096));
  const int wanted = call.jobs > 0 ? call.jobs : std::max(1, cores / std::max(1, call.threads));
  const int jobs = std::min(wanted, most);
  return {jobs, call.threads > 0 ? call.threads : std::max(1, cores / jobs)};
}

/// Adds notes on copies once, because the notes of all runs would be the same.
void tell_of(const Keeping& keeping, const core::StudyPlan& plan, Json& notes) {
  if (keeping.features() == nullptr) return;
  const bool any = std::ranges::any_of(plan.arms, [](const core::PlannedArm& arm) {
    return core::has_features_to_keep(*arm.plan.setting) || arm.manifest->streaming;
  });
  notes.push_back(
      any ? "the outputs of frozen layers and costly transforms, and streamed rows, are kept in " +
                keeping.folder().string() + ", as private as the data, until privgrad cache delete"
          : "cache keeps the outputs of frozen layers and of costly transforms, and no arm has "
            "either");
}

Json planned(const core::StudyPlan& plan) {
  Json json = core::to_json(plan);
  for (std::size_t a = 0; a < plan.arms.size(); ++a)
    json["arms"][a]["estimated_seconds"] = core::estimated_seconds(plan.arms[a].plan);
  return json;
}

core::Study study_of(const StudyCall& call) {
  return call.is_file ? core::read_study(call.text) : core::parse_study(call.text, call.name);
}

}  // namespace

std::string Framework::ablate(const StudyCall& call, const Watch& watch) const {
  api::StudyCourse course = api::plan_course(study_of(call), call.overrides, catalog());
  const Keeping keeping(call.cache);
  Json answer{{"notes", core::study_remarks(course.plan)}, {"failed", Json::array()}, {"left", 0}};
  if (call.dry_run) {
    answer["plan"] = planned(course.plan);
    if (course.search) answer["plan"]["search"]["plan"] = planned(*course.search);
    return answer.dump();
  }
  const core::StudyDirectory directory(call.directory ? fs::path(*call.directory)
                                                      : fs::path("studies") / course.study.name);
  answer["study_dir"] = directory.path().string();
  const auto make = [&](const core::StudyPlan& plan, const core::StudyDirectory& place) {
    const std::vector<api::OpenRun> open = api::left_runs(plan, place);
    tell_of(keeping, plan, answer["notes"]);
    const Shares shares = shares_of(call, open.size());
    answer["failed"] =
        StudyRunner(plan, place, catalog(), shares.threads, keeping, watch).make(open, shares.jobs);
    answer["left"] = api::left_runs(plan, place).size();
    return answer["left"] == 0;
  };
  std::optional<Json> results = api::carry_out(course, directory, catalog(), make);
  if (!results) return answer.dump();
  answer["results"] = std::move(*results);
  answer["results"]["study_dir"] = directory.path().string();
  try {
    report::write_report(directory.path());
  } catch (const Error& problem) {
    answer["notes"].push_back(std::string("the study has no report.html: ") + problem.what());
  }
  return answer.dump();
}

}  // namespace privgrad::python
