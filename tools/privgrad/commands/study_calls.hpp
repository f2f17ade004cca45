// The runs of a study as child processes: their files, command lines and results.
#pragma once

#include <filesystem>
#include <string>

#include "arguments.hpp"
#include "child_runs.hpp"
#include "privgrad/api/study_state.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/train/run.hpp"

namespace privgrad::tool {

using api::OpenRun;

/// Returns text like "uniform+sgd seed 3".
std::string run_name(const core::StudyPlan& plan, const OpenRun& run);

/// The input files of one run of a study, and the directory for its output.
struct RunPlace {
  std::filesystem::path manifest, lock, directory;
};

RunPlace place_in(const core::StudyDirectory& directory, const core::StudyPlan& plan,
                  const OpenRun& run);

/// Returns the options for core::can_be_resumed() and core::discard_state().
core::RunOptions options_at(const RunPlace& place);

/// Deletes the private state of a run that will not be resumed. Keeps and reports a state that
/// belongs to another run: the study's directory may be a copy of somebody else's directory.
void discard_run(const RunPlace& place);

/// Returns the call that makes a run: an interrupted run is resumed; any other run begins in an
/// empty directory. Reads the options --cache and --plugin-dir.
ChildCall call_for(const RunPlace& place, const OpenRun& run, const Arguments& arguments);

/// Returns text like "test_accuracy 0.9512 in 1.2 s".
std::string outcome_text(const core::StudyPlan& plan, const core::RunRecord& record);

/// Returns one line with the reason why a run failed.
std::string reason(const ChildEnd& end);

}  // namespace privgrad::tool
