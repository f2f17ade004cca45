// The runs of a study that this process makes, each in its own child process.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "arguments.hpp"
#include "child_runs.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "study_calls.hpp"

namespace privgrad::tool {

/// Runs of a study as child processes. An interrupted run is resumed. A run that cannot be resumed
/// because its steps are not reproducible bit for bit begins anew at once.
class StudyChildren {
 public:
  /// Reads the same options as call_for().
  StudyChildren(const core::StudyPlan& plan, const Arguments& arguments)
      : plan_(plan), arguments_(arguments) {}

  /// \param number  identifies the run in wait(); each number may be used only once.
  /// \throws IoError if no process can be created.
  void start(std::size_t number, const OpenRun& run, RunPlace place);
  std::size_t running() const noexcept { return runs_.running(); }
  /// Waits like ChildRuns::wait().
  /// \returns the runs that have ended. The private state of failed runs has been deleted, so the
  ///   next call of the study begins these runs anew, with the same seeded noise.
  std::vector<ChildRuns::Ended> wait(int most_ms);
  /// Asks the runs to end after their current step, so that the next call of the study can resume
  /// them. Runs that take too long are killed.
  void stop();

 private:
  struct Begun {
    OpenRun run;
    RunPlace place;
    bool goes_on = false;  ///< Whether the run was interrupted earlier.
  };

  void start(std::size_t number, Begun& begun);
  bool begins_anew(std::size_t number, const ChildEnd& end);

  const core::StudyPlan& plan_;
  const Arguments& arguments_;
  std::map<std::size_t, Begun> begun_;
  ChildRuns runs_;
};

}  // namespace privgrad::tool
