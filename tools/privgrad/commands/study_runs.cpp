#include "study_runs.hpp"

#include <algorithm>
#include <csignal>

#include "feature_cache_call.hpp"
#include "output.hpp"
#include "privgrad/api/study_state.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/train/run.hpp"
#include "privgrad/train/run_estimate.hpp"
#include "stop_signals.hpp"
#include "study_calls.hpp"
#include "study_children.hpp"
#include "study_recorder.hpp"

namespace privgrad::tool {
namespace {

constexpr int kMostJobs = 4096;
/// The seconds that a run takes for its process, files and page, besides planning and training.
constexpr double kSecondsAround = 0.4;

/// Prints where features are stored, because the notes of the runs are not shown.
void tell_of_cache(const core::StudyPlan& plan, const Arguments& arguments) {
  const auto cache = requested_cache(arguments);
  if (cache == nullptr) return;
  const bool any = std::ranges::any_of(plan.arms, [](const core::PlannedArm& arm) {
    return core::has_features_to_keep(*arm.plan.setting);
  });
  cache->note(
      any ? "the outputs of frozen layers and costly transforms are kept in " +
                feature_folder(arguments, "cache").string() +
                ", as private as the data, until privgrad cache delete"
          : "--cache keeps the outputs of frozen layers and of costly transforms, and no arm has "
            "either");
}

std::vector<OpenRun> left_of(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                             const Shard& shard) {
  std::vector<OpenRun> left = api::left_runs(plan, directory);
  std::erase_if(left, [&](const OpenRun& run) { return !shard.has(plan, run); });
  return left;
}

/// Makes the runs in `open`.
/// \returns the failed runs, one line for each.
std::vector<std::string> run_all(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                                 const std::vector<OpenRun>& open, int jobs,
                                 const Arguments& arguments, const StopSignals& signals,
                                 StudyRecorder& recorder) {
  StudyChildren runs(plan, arguments);
  std::size_t next = 0;
  while (!signals.flag() && (next < open.size() || runs.running() > 0)) {
    for (; next < open.size() && runs.running() < static_cast<std::size_t>(jobs); ++next) {
      runs.start(next, open[next], place_in(directory, plan, open[next]));
      recorder.started(open[next]);
    }
    for (const ChildRuns::Ended& one : runs.wait(200)) recorder.ended(open[one.number], one.end);
    recorder.waiting();
  }
  runs.stop();
  return recorder.failed();
}

}  // namespace

Option jobs_option() {
  return {
      "jobs", "N",
      "Runs at a time, each on one thread; default all cores. The results do not depend on it."};
}

int jobs_of(const Arguments& arguments) {
  return arguments.has("jobs") ? whole_number("jobs", arguments.text("jobs"), 1, kMostJobs)
                               : core::available_threads();
}

std::vector<double> run_seconds(const core::StudyPlan& plan) {
  std::vector<double> seconds;
  for (const core::PlannedArm& arm : plan.arms)
    seconds.push_back(kSecondsAround + arm.plan_seconds + estimated_seconds(arm.plan));
  return seconds;
}

bool Shard::has(const core::StudyPlan& plan, const OpenRun& run) const {
  const std::vector<std::uint64_t>& seeds = plan.study->seeds;
  const auto place = std::ranges::find(seeds, run.seed) - seeds.begin();
  return (run.arm * seeds.size() + static_cast<std::size_t>(place)) % of == number - 1;
}

Option shard_option() {
  return {"shard", "I/N",
          "Make only the I-th of N shares of the runs, for N machines; docs/studies.md says how "
          "their results become one study."};
}

Shard shard_of(const Arguments& arguments) {
  if (!arguments.has("shard")) return {};
  const std::string text = arguments.text("shard");
  const std::size_t slash = text.find('/');
  if (slash == text.npos)
    throw UsageError("--shard is '" + text +
                     "', expected the number of a shard and how many there are, as in 2/4");
  const int of = whole_number("shard", text.substr(slash + 1), 1, kMostJobs);
  const int number = whole_number("shard", text.substr(0, slash), 1, of);
  return {.number = static_cast<std::size_t>(number), .of = static_cast<std::size_t>(of)};
}

bool make_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory,
               const std::vector<double>& seconds, int jobs, const Arguments& arguments,
               const Shard& shard) {
  tell_of_cache(plan, arguments);
  std::signal(SIGPIPE, SIG_IGN);
  const StopSignals signals;
  const std::vector<OpenRun> open = left_of(plan, directory, shard);
  const std::size_t all = all_runs(plan, shard);
  StudyRecorder recorder(plan, directory, open, all, seconds, arguments.has("quiet"));
  const std::vector<std::string> failed =
      run_all(plan, directory, open, jobs, arguments, signals, recorder);
  const std::size_t left = open_runs(plan, directory, shard);
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

std::size_t open_runs(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                      const Shard& shard) {
  return left_of(plan, directory, shard).size();
}

std::size_t all_runs(const core::StudyPlan& plan, const Shard& shard) {
  std::size_t count = 0;
  for (std::size_t arm = 0; arm < plan.arms.size(); ++arm) {
    if (!plan.has_own_runs(arm)) continue;
    for (const std::uint64_t seed : plan.study->seeds) count += shard.has(plan, {arm, seed});
  }
  return count;
}

}  // namespace privgrad::tool
