#include "study_runs.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "child_runs.hpp"
#include "feature_cache_call.hpp"
#include "output.hpp"
#include "privgrad/calls/run_directory.hpp"
#include "privgrad/calls/study_state.hpp"
#include "privgrad/pipeline/executor.hpp"
#include "privgrad/pipeline/run.hpp"
#include "privgrad/pipeline/run_estimate.hpp"
#include "stop_signals.hpp"
#include "study_progress.hpp"

namespace privgrad::tool {
namespace {

constexpr int kMostJobs = 4096;

using Open = calls::OpenRun;

std::string run_name(const core::StudyPlan& plan, const Open& run) {
  return plan.arms[run.arm].arm->name + " seed " + std::to_string(run.seed);
}

/// What every run of the study is told as the study was.
void add_common_options(ChildCall& call, const Arguments& arguments) {
  if (arguments.has("cache"))
    call.words.push_back("--cache=" + feature_folder(arguments, "cache").string());
  for (const std::string& folder : arguments.texts("plugin-dir"))
    call.words.insert(call.words.end(), {"--plugin-dir", folder});
}

core::RunOptions place_of(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                          const Open& run) {
  return {.directory = directory.run(plan.arms[run.arm].arm->name, run.seed),
          .lock = "",
          .state = calls::default_state_directory(),
          .on_progress = {}};
}

/// A study's directory may have come from somebody else.
void discard(const core::RunOptions& place) {
  const std::string left = core::discard_state(place);
  if (!left.empty()) complain("note", left);
}

/// A run that was cut off goes on where it was; any other begins in an empty directory.
ChildCall call_for(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                   const Open& run, const Arguments& arguments) {
  const std::string& arm = plan.arms[run.arm].arm->name;
  const core::RunOptions place = place_of(plan, directory, run);
  if (core::can_be_resumed(place)) {
    ChildCall call{{"run", "--resume", place.directory.string(), "--threads", "1", "--quiet"}};
    add_common_options(call, arguments);
    return call;
  }
  discard(place);
  directory.clear(arm, run.seed);
  ChildCall call{{"run", directory.arm_manifest(arm).string(), "--set",
                  "seed=" + std::to_string(run.seed), "--out",
                  directory.run(arm, run.seed).string(), "--threads", "1", "--quiet",
                  "--locked=" + directory.lock_file().string()}};
  add_common_options(call, arguments);
  return call;
}

/// The runs' own notes are heard by nobody.
void tell_of_cache(const core::StudyPlan& plan, const Arguments& arguments) {
  const auto cache = requested_cache(arguments);
  if (cache == nullptr) return;
  const bool any = std::any_of(plan.arms.begin(), plan.arms.end(), [](const core::PlannedArm& arm) {
    return core::has_features_to_keep(*arm.plan.setting);
  });
  cache->note(
      any ? "what frozen layers and costly transforms make of the data is kept in " +
                feature_folder(arguments, "cache").string() +
                ", as private as the data, until privgrad cache delete"
          : "--cache keeps the outputs of frozen layers and of costly transforms, and no arm has "
            "either");
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

/// Makes the runs that are left.
/// \returns the failed ones, each as a line.
std::vector<std::string> run_all(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                                 const std::vector<Open>& open, const std::vector<double>& seconds,
                                 int jobs, const Arguments& arguments, const StopSignals& signals) {
  std::vector<ChildCall> calls;
  double work = 0.0;
  for (const Open& run : open) {
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
            // What cannot go on begins anew when the study is called again: its noise is of a seed.
            if (!record && !end.by_signal && !signals.flag())
              discard(place_of(plan, directory, open[i]));
            progress.ended(run_name(plan, open[i]),
                           record ? outcome_text(plan, *record) : "FAILED, " + reason(end),
                           seconds[open[i].arm]);
          },
      .waiting = [&] { progress.draw(); }};
  run_children(calls, jobs, signals.flag(), observer);
  return failed;
}

}  // namespace

Option jobs_option() {
  return {.name = "jobs",
          .value = "N",
          .doc =
              "Runs at a time, each on one thread; default all cores. The results do not depend "
              "on it."};
}

int jobs_of(const Arguments& arguments) {
  return arguments.has("jobs") ? whole_number("jobs", arguments.text("jobs"), 1, kMostJobs)
                               : core::available_threads();
}

std::vector<double> run_seconds(const core::StudyPlan& plan) {
  std::vector<double> seconds;
  for (const core::PlannedArm& arm : plan.arms) seconds.push_back(estimated_seconds(arm.plan));
  return seconds;
}

bool make_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory,
               const std::vector<double>& seconds, int jobs, const Arguments& arguments) {
  tell_of_cache(plan, arguments);
  std::signal(SIGPIPE, SIG_IGN);
  const StopSignals signals;
  const std::vector<std::string> failed = run_all(
      plan, directory, calls::left_runs(plan, directory), seconds, jobs, arguments, signals);
  const std::size_t left = open_runs(plan, directory);
  const std::size_t all = plan.arms.size() * plan.study->seeds.size();
  const std::string done =
      std::to_string(all - left) + " of " + std::to_string(all) + " runs are done";
  for (const std::string& line : failed) complain("error", line);
  if (left > failed.size()) {
    complain("error", "interrupted: " + done + "; the same call continues the study");
  } else if (left > 0) {
    complain("error", done + "; the same call tries the others again");
  }
  return left == 0;
}

std::size_t open_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory) {
  return calls::left_runs(plan, directory).size();
}

}  // namespace privgrad::tool
