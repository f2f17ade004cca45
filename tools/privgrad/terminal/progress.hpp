// Shows the progress of a run on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "privgrad/train/run.hpp"
#include "status_line.hpp"

namespace privgrad::tool {

/// Shows the progress of a run on standard error: on a terminal one line that is rewritten in place
/// and includes the remaining time; elsewhere one line per measurement.
class ProgressDisplay {
 public:
  /// \param target_epsilon  nothing if the run has no budget.
  ProgressDisplay(std::optional<double> target_epsilon, bool quiet);
  void show(const core::Progress& progress);

 private:
  /// The metrics that fit into the line: the metrics of both splits, the metrics of one split, or
  /// only the loss.
  enum class Detail { all = 1, one_split, one_metric };

  std::string line(const core::Progress& progress, Detail detail) const;

  /// Returns the time that the remaining steps will take, estimated from the steps since the first
  /// measurement; "" before the first measurement and after the last.
  std::string remaining(const core::Progress& progress);

  std::optional<double> target_epsilon_;
  StatusLine status_;
  std::optional<std::pair<std::uint64_t, std::chrono::steady_clock::time_point>> first_;
};

}  // namespace privgrad::tool
