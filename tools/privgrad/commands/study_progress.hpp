// Shows the progress of a study on standard error.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "status_line.hpp"

namespace privgrad::tool {

/// Shows the progress of a study on standard error: on a terminal one line that is rewritten in
/// place, elsewhere one line per finished run.
class StudyProgress {
 public:
  /// \param runs  the number of all runs.
  /// \param done  the number of runs that were made before this call.
  /// \param work  the estimated seconds of computation for the remaining runs.
  StudyProgress(std::size_t runs, std::size_t done, double work, bool quiet);
  void started(const std::string& run);
  /// \param outcome  such as "test_accuracy 0.9512 in 1.2 s".
  /// \param work  the run's estimated seconds.
  void ended(const std::string& run, const std::string& outcome, double work);
  void draw(bool at_once = false);

 private:
  using Clock = std::chrono::steady_clock;
  std::string line() const;
  std::string remaining() const;

  std::size_t runs_, done_;
  double work_, work_done_ = 0.0;
  StatusLine status_;
  std::set<std::string> running_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace privgrad::tool
