#include "study_recorder.hpp"

namespace privgrad::tool {
namespace {

double work_of(const std::vector<OpenRun>& open, const std::vector<double>& seconds) {
  double work = 0.0;
  for (const OpenRun& run : open) work += seconds[run.arm];
  return work;
}

}  // namespace

StudyRecorder::StudyRecorder(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                             const std::vector<OpenRun>& open, std::size_t all,
                             const std::vector<double>& seconds, bool quiet)
    : plan_(plan),
      directory_(directory),
      seconds_(seconds),
      progress_(all, all - open.size(), work_of(open, seconds), quiet) {}

void StudyRecorder::started(const OpenRun& run) { progress_.started(run_name(plan_, run)); }

void StudyRecorder::ended(const OpenRun& run, const ChildEnd& end) {
  const auto record = directory_.finished(plan_.arms[run.arm].arm->name, run.seed);
  const std::string name = run_name(plan_, run);
  if (!record) failed_.push_back(name + ": " + reason(end));
  progress_.ended(name, record ? outcome_text(plan_, *record) : "FAILED, " + reason(end),
                  seconds_[run.arm]);
}

}  // namespace privgrad::tool
