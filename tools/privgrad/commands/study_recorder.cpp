#include "study_recorder.hpp"

namespace privgrad::tool {
namespace {

double work_of(const std::vector<OpenRun>& open, const std::vector<double>& seconds) {
  double work = 0.0;
  for (const OpenRun& run : open) work += seconds[run.arm];
  return work;
}

std::size_t all_runs_of(const core::StudyPlan& plan) {
  return plan.arms.size() * plan.study->seeds.size();
}

}  // namespace

StudyRecorder::StudyRecorder(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                             const std::vector<OpenRun>& open, const std::vector<double>& seconds,
                             bool quiet)
    : plan_(plan),
      directory_(directory),
      seconds_(seconds),
      progress_(all_runs_of(plan), all_runs_of(plan) - open.size(), work_of(open, seconds), quiet) {
}

void StudyRecorder::started(const OpenRun& run) { progress_.started(run_name(plan_, run)); }

bool StudyRecorder::ended(const OpenRun& run, const ChildEnd& end, const std::string& where) {
  const auto record = directory_.finished(plan_.arms[run.arm].arm->name, run.seed);
  const std::string name = run_name(plan_, run);
  if (!record) failed_.push_back(name + where + ": " + reason(end));
  progress_.ended(name,
                  record ? outcome_text(plan_, *record) : "FAILED" + where + ", " + reason(end),
                  seconds_[run.arm]);
  return record.has_value();
}

}  // namespace privgrad::tool
