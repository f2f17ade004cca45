#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "privgrad/train/run.hpp"
#include "status_line.hpp"

namespace privgrad::tool {

/// Shows on standard error how a run gets on: one line that is rewritten in place on a terminal,
/// with the time that is left; one line per measurement elsewhere.
class ProgressDisplay {
 public:
  /// \param target_epsilon  nothing: the run has no budget.
  ProgressDisplay(std::optional<double> target_epsilon, bool quiet);
  void show(const core::Progress& progress);

 private:
  /// What a narrow terminal has room for: metrics of both splits, of one, or the loss alone.
  enum class Detail { all = 1, one_split, one_metric };

  std::string line(const core::Progress& progress, Detail detail) const;

  /// Time that the other steps will take, going by those since the first measurement; "" before
  /// there are any and after the last.
  std::string remaining(const core::Progress& progress);

  std::optional<double> target_epsilon_;
  StatusLine status_;
  std::optional<std::pair<std::uint64_t, std::chrono::steady_clock::time_point>> first_;
};

}  // namespace privgrad::tool
