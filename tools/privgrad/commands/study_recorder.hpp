// Counts the finished and failed runs of a study during one call, and shows the progress.
#pragma once

#include <string>
#include <vector>

#include "study_calls.hpp"
#include "study_progress.hpp"

namespace privgrad::tool {

class StudyRecorder {
 public:
  /// \param open  the remaining runs, out of `all` runs.
  /// \param seconds  the estimated time of a run of each arm.
  StudyRecorder(const core::StudyPlan& plan, const core::StudyDirectory& directory,
                const std::vector<OpenRun>& open, std::size_t all,
                const std::vector<double>& seconds, bool quiet);

  void started(const OpenRun& run);
  void ended(const OpenRun& run, const ChildEnd& end);
  void waiting() { progress_.draw(); }
  /// Returns the failed runs, one line for each.
  const std::vector<std::string>& failed() const noexcept { return failed_; }

 private:
  const core::StudyPlan& plan_;
  const core::StudyDirectory& directory_;
  const std::vector<double>& seconds_;
  StudyProgress progress_;
  std::vector<std::string> failed_;
};

}  // namespace privgrad::tool
