#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "privgrad/cluster.hpp"
#include "study_calls.hpp"
#include "study_recorder.hpp"

namespace privgrad::tool {

/// The processes that make the runs of a study together, at process 0. Each run is made by one of
/// them; whoever is free gets the next.
///
/// Process 0 writes the study's directory, and nobody else sees it: the others make their runs in a
/// folder of their own machine's state, and send the files of those that have come to their ends. So
/// machines need no file system in common. Several times a second all of them meet, which is how one
/// that is gone or stopped is noticed.
class StudyProcesses {
 public:
  /// Compares the processes: the same program, plugins, arms and examples.
  /// \param jobs  at a time, of this process.
  /// \throws ConfigError naming a process that differs; PrivacyError for arms that an account pays
  ///   for, which is a file of one machine, where there are several.
  StudyProcesses(const core::StudyPlan& plan, int jobs, const Arguments& arguments,
                 Cluster& cluster);
  StudyProcesses(const StudyProcesses&) = delete;
  StudyProcesses& operator=(const StudyProcesses&) = delete;
  ~StudyProcesses() = default;

  /// Makes the runs, at most once.
  /// \param stop  when it becomes true, the running ones are killed, everywhere.
  /// \returns the failed ones, each as a line.
  std::vector<std::string> make(const core::StudyDirectory& directory,
                                const std::vector<OpenRun>& open, const std::atomic<bool>& stop,
                                StudyRecorder& recorder);

  /// There is nothing more to make: the others end. make() has done so.
  void dismiss();

 private:
  const core::StudyPlan& plan_;
  int jobs_;
  const Arguments& arguments_;
  Cluster& cluster_;
  std::vector<std::string> names_;  // of all processes
  bool is_over_ = false;
};

/// What every process but process 0 does for a study, until process 0 dismisses it.
/// \throws as StudyProcesses, and IoError if the user has no folder for state, or process 0 is gone.
void make_runs_for_others(const core::StudyPlan& plan, int jobs, const Arguments& arguments,
                          Cluster& cluster);

}  // namespace privgrad::tool
