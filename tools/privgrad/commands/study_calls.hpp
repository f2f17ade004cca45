// The runs of a study as child processes: their files, their command lines and their results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "child_runs.hpp"
#include "privgrad/api/study_state.hpp"
#include "privgrad/studies/study_directory.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "privgrad/train/run.hpp"

namespace privgrad::tool {

using api::OpenRun;

/// "uniform+sgd seed 3".
std::string run_name(const core::StudyPlan& plan, const OpenRun& run);

/// The files that a run of a study is made from, and the directory for its own.
struct RunPlace {
  std::filesystem::path manifest, lock, directory;
};

RunPlace place_in(const core::StudyDirectory& directory, const core::StudyPlan& plan,
                  const OpenRun& run);

/// The options for core::can_be_resumed() and core::discard_state().
core::RunOptions options_at(const RunPlace& place);

/// Deletes the private state of a run that will not be resumed, if it belongs to this run. A
/// study's directory may have come from somebody else: state that is left is reported.
void discard_run(const RunPlace& place);

/// The call that makes a run: an interrupted run goes on where it was; any other begins in an empty
/// directory. Options read: --cache, --plugin-dir.
ChildCall call_for(const RunPlace& place, const OpenRun& run, const Arguments& arguments);

/// "test_accuracy 0.9512 in 1.2 s".
std::string outcome_text(const core::StudyPlan& plan, const core::RunRecord& record);

/// The line that says why a run failed.
std::string reason(const ChildEnd& end);

}  // namespace privgrad::tool
