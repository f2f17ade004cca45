#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "child_runs.hpp"
#include "command.hpp"
#include "manifest_call.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/core/executor.hpp"
#include "privgrad/core/files.hpp"
#include "privgrad/core/run_estimate.hpp"
#include "privgrad/core/study_directory.hpp"
#include "privgrad/core/study_plan.hpp"
#include "privgrad/core/study_results.hpp"
#include "result_page.hpp"
#include "stop_signals.hpp"
#include "study_page.hpp"
#include "study_progress.hpp"
#include "study_state.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kMostJobs = 4096;

/// A run that is still to be made.
struct Open {
  std::size_t arm = 0;
  std::uint64_t seed = 0;
};

std::string run_name(const core::StudyPlan& plan, const Open& run) {
  return plan.arms[run.arm].arm->name + " seed " + std::to_string(run.seed);
}

/// By seed, then arm: whoever looks at a study half-way has compared all arms.
std::vector<Open> open_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory) {
  std::vector<Open> runs;
  for (const std::uint64_t seed : plan.study->seeds) {
    for (std::size_t a = 0; a < plan.arms.size(); ++a) {
      if (!directory.finished(plan.arms[a].arm->name, seed)) runs.push_back({a, seed});
    }
  }
  return runs;
}

ChildCall call_for(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                   const Open& run, const Arguments& arguments) {
  const std::string& arm = plan.arms[run.arm].arm->name;
  ChildCall call{{"run", directory.arm_manifest(arm).string(), "--set",
                  "seed=" + std::to_string(run.seed), "--out",
                  directory.run(arm, run.seed).string(), "--threads", "1", "--quiet",
                  "--locked=" + directory.lock_file().string()}};
  for (const std::string& folder : arguments.texts("plugin-dir")) {
    call.words.insert(call.words.end(), {"--plugin-dir", folder});
  }
  return call;
}

std::string outcome_text(const core::StudyPlan& plan, const core::RunRecord& record) {
  const std::string& metric = plan.study->metrics.front().name;
  const auto& value = record.metrics.at(metric);
  return (record.status == "completed" ? "" : record.status + ", ") + metric + " " +
         (value ? short_number(*value) : "-") + " in " + duration_text(record.seconds);
}

/// The line that says why a run failed.
std::string reason(const ChildEnd& end) {
  if (end.by_signal) {
    const char* name = ::sigabbrev_np(end.code);
    return "ended by signal " + std::to_string(end.code) +
           (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
  }
  std::string last = end.error;
  while (!last.empty() && last.back() == '\n') last.pop_back();
  last.erase(0, last.rfind('\n') == last.npos ? 0 : last.rfind('\n') + 1);
  const std::string code = "exit code " + std::to_string(end.code);
  return last.empty() ? code : last + " (" + code + ")";
}

/// Makes the runs that are left. \returns the failed ones, each as a line.
std::vector<std::string> make_runs(const core::StudyPlan& plan,
                                   const core::StudyDirectory& directory,
                                   const std::vector<Open>& open,
                                   const std::vector<double>& seconds, int jobs,
                                   const Arguments& arguments, const StopSignals& signals) {
  std::vector<ChildCall> calls;
  double work = 0.0;
  for (const Open& run : open) {
    directory.clear(plan.arms[run.arm].arm->name, run.seed);
    calls.push_back(call_for(plan, directory, run, arguments));
    work += seconds[run.arm];
  }
  const std::size_t all = plan.arms.size() * plan.study->seeds.size();
  StudyProgress progress(all, all - open.size(), work, arguments.has("quiet"));
  std::vector<std::string> failed;
  const ChildObserver observer{
      .started = [&](std::size_t i) { progress.started(run_name(plan, open[i])); },
      .ended =
          [&](std::size_t i, const ChildEnd& end) {
            const auto record = directory.finished(plan.arms[open[i].arm].arm->name, open[i].seed);
            if (!record) failed.push_back(run_name(plan, open[i]) + ": " + reason(end));
            progress.ended(run_name(plan, open[i]),
                           record ? outcome_text(plan, *record) : "FAILED, " + reason(end),
                           seconds[open[i].arm]);
          },
      .waiting = [&] { progress.draw(); }};
  run_children(calls, jobs, signals.flag(), observer);
  return failed;
}

core::StudyRuns all_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory) {
  core::StudyRuns runs;
  for (const core::PlannedArm& arm : plan.arms) {
    auto& row = runs.emplace_back();
    for (const std::uint64_t seed : plan.study->seeds) {
      const auto record = directory.finished(arm.arm->name, seed);
      if (!record) {
        throw IoError(directory.run(arm.arm->name, seed).string() + ": has lost its summary.json");
      }
      row.push_back(*record);
    }
  }
  return runs;
}

void remove_results(const core::StudyDirectory& directory) {
  for (const fs::path& file : {directory.results_csv(), directory.results_json()}) {
    std::error_code failure;
    fs::remove(file, failure);
    if (failure) throw IoError(file.string() + ": cannot be removed: " + failure.message());
  }
}

std::vector<double> estimates(const core::StudyPlan& plan) {
  std::vector<double> seconds;
  for (const core::PlannedArm& arm : plan.arms) seconds.push_back(estimated_seconds(arm.plan));
  return seconds;
}

int show_dry_run(const core::StudyPlan& plan, const Arguments& arguments, int jobs) {
  const std::vector<double> seconds = estimates(plan);
  const std::size_t runs = plan.arms.size() * plan.study->seeds.size();
  if (!arguments.has("json")) {
    print(study_plan_page(plan, seconds, runs, jobs));
    return 0;
  }
  Json json = core::to_json(plan);
  for (std::size_t a = 0; a < seconds.size(); ++a) {
    json["arms"][a]["estimated_seconds"] = seconds[a];
  }
  print_json(json);
  return 0;
}

int finish(const core::StudyPlan& plan, const core::StudyDirectory& directory,
           const Arguments& arguments) {
  const core::StudyRuns runs = all_runs(plan, directory);
  Json results = core::results_json(plan, runs);
  core::write_atomically(directory.results_csv(), core::results_csv(plan, runs));
  core::write_atomically(directory.results_json(), results.dump(2) + "\n");
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

int run(const Arguments& arguments) {
  const int jobs = arguments.has("jobs")
                       ? whole_number("jobs", arguments.text("jobs"), 1, kMostJobs)
                       : core::available_threads();
  const host::PluginHost host = load_plugins(arguments);
  const core::StudyPlan plan = core::plan_study(core::read_study(arguments.operand(0)),
                                                arguments.texts("set"), host.catalog());
  if (arguments.has("dry-run")) return show_dry_run(plan, arguments, jobs);

  const core::StudyDirectory directory(arguments.has("out")
                                           ? fs::path(arguments.text("out"))
                                           : fs::path("studies") / plan.study->name);
  prepare_directory(directory, plan, host.catalog());
  const std::vector<Open> open = open_runs(plan, directory);
  if (!open.empty()) {
    const std::vector<double> seconds = estimates(plan);
    if (!arguments.has("json")) print(study_plan_page(plan, seconds, open.size(), jobs));
    remove_results(directory);  // they would not be those of this study
    std::signal(SIGPIPE, SIG_IGN);
    const StopSignals signals;
    const std::vector<std::string> failed =
        make_runs(plan, directory, open, seconds, jobs, arguments, signals);
    const std::size_t left = open_runs(plan, directory).size();
    const std::size_t all = plan.arms.size() * plan.study->seeds.size();
    const std::string done =
        std::to_string(all - left) + " of " + std::to_string(all) + " runs are done";
    for (const std::string& line : failed) complain("error", line);
    if (left > failed.size()) {
      complain("error", "interrupted: " + done + "; the same call continues the study");
      return 1;
    }
    if (left > 0) {
      complain("error", done + "; the same call tries the others again");
      return 1;
    }
  }
  return finish(plan, directory, arguments);
}

}  // namespace

Command ablate_command() {
  return {
      .usage =
          {.name = "ablate",
           .summary = "Compares variants of a manifest at the same privacy: runs every arm of a "
                      "study with every\nseed, and leaves tables, paired differences and what "
                      "choosing the best arm costs.",
           .operands = {"STUDY"},
           .options =
               {set_option(),
                {.name = "out",
                 .value = "DIR",
                 .doc = "The study's directory; default studies/NAME. One that was begun is "
                        "continued."},
                {.name = "jobs",
                 .value = "N",
                 .doc = "Runs at a time, each on one thread; default all cores. The results do "
                        "not depend on it."},
                {.name = "dry-run",
                 .value = "",
                 .doc = "Plan and calibrate every arm, show that, and stop."},
                {.name = "json",
                 .value = "",
                 .doc = "Print the results (with --dry-run, the plan) as JSON and nothing else on "
                        "standard output."},
                plugin_dir_option(),
                {.name = "quiet", .value = "", .doc = "Show no progress."}},
           .details =
               "Every arm is calibrated to the same epsilon, delta and adjacency before anything "
               "runs. Ctrl-C or a\ncrash loses the runs that are under way and nothing else: the "
               "same call continues. The format of\nstudies and of their directory is described "
               "in docs/studies.md.\n\n"
               "exit codes: 0 done, 1 interrupted or a run failed, 2 the call, the study or a "
               "manifest is wrong, 3\nrefused for privacy, 4 a file could not be read or written",
           .examples = {"privgrad ablate examples/studies/quickstart.yaml",
                        "privgrad ablate study.yaml --dry-run",
                        "privgrad ablate study.yaml --set privacy.target_epsilon=2 --out "
                        "studies/e2 --jobs 4"}},
      .run = run};
}

}  // namespace privgrad::tool
