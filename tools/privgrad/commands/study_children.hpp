// The runs of a study that this process makes, each in a process of its own.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "child_runs.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "study_calls.hpp"

namespace privgrad::tool {

/// Runs of a study as child processes. One that was cut off goes on where it was. If it is refused
/// for that, it begins anew at once: a run whose steps have not the same bits again cannot go on
/// from a kill.
class StudyChildren {
 public:
  /// Options read: those of call_for().
  StudyChildren(const core::StudyPlan& plan, const Arguments& arguments)
      : plan_(plan), arguments_(arguments) {}

  /// \param number  its name in wait(); not the number of one that was started before.
  /// \throws IoError
  void start(std::size_t number, const OpenRun& run, RunPlace place);
  std::size_t running() const noexcept { return runs_.running(); }
  /// Waits as ChildRuns does.
  /// \returns those that have ended. The private state of those that failed is gone by then, so that
  ///   they begin anew in the next call of the study: their noise has a seed.
  std::vector<ChildRuns::Ended> wait(int most_ms);
  /// Lets the runs end behind a step, so that the next call of the study goes on with them. Those
  /// that take too long for that are killed.
  void stop();

 private:
  struct Begun {
    OpenRun run;
    RunPlace place;
    bool goes_on = false;  ///< It had been cut off.
  };

  void start(std::size_t number, Begun& begun);
  bool begins_anew(std::size_t number, const ChildEnd& end);

  const core::StudyPlan& plan_;
  const Arguments& arguments_;
  std::map<std::size_t, Begun> begun_;
  ChildRuns runs_;
};

}  // namespace privgrad::tool
