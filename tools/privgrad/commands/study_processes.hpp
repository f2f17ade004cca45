// Shares the runs of a study among the processes of a cluster, led by process 0.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "privgrad/cluster.hpp"
#include "study_calls.hpp"
#include "study_recorder.hpp"

namespace privgrad::tool {

/// Process 0's view of the processes that make the runs of a study together. Each run is made by
/// one of them; the next free one gets the next run, because runs of different arms take different
/// times: shares that are fixed beforehand would leave the processes with the short ones idle.
///
/// Process 0 writes the study's directory, and nobody else sees it: the others make their runs in a
/// folder of their own machine's state, and send the files of finished runs. So machines need no
/// file system in common. Several times a second all processes meet, so that a process that is gone
/// or stopped is noticed.
class StudyProcesses {
 public:
  /// Makes sure that all processes have the same program, plugins, arms and examples.
  /// \param jobs  runs at a time in this process.
  /// \throws ConfigError naming a process that differs; PrivacyError with several processes for
  ///   arms that an account pays for, since that is a file of one machine.
  StudyProcesses(const core::StudyPlan& plan, int jobs, const Arguments& arguments,
                 Cluster& cluster);
  StudyProcesses(const StudyProcesses&) = delete;
  StudyProcesses& operator=(const StudyProcesses&) = delete;
  ~StudyProcesses() = default;

  /// Makes the runs, at most once.
  /// \param stop  when it becomes true, the running ones are ended (StudyChildren::stop), on all machines.
  /// \returns the failed ones, each as a line.
  std::vector<std::string> make(const core::StudyDirectory& directory,
                                const std::vector<OpenRun>& open, const std::atomic<bool>& stop,
                                StudyRecorder& recorder);

  /// Lets the other processes end, as there are no more runs to make. make() does so itself.
  void dismiss();

 private:
  const core::StudyPlan& plan_;
  int jobs_;
  const Arguments& arguments_;
  Cluster& cluster_;
  std::vector<std::string> names_;  // of all processes
  bool is_over_ = false;
};

/// The work of every process but process 0 for a study, until process 0 dismisses it.
/// \throws as StudyProcesses, and IoError if the user has no folder for state, or process 0 is
///   gone.
void make_runs_for_others(const core::StudyPlan& plan, int jobs, const Arguments& arguments,
                          Cluster& cluster);

}  // namespace privgrad::tool
