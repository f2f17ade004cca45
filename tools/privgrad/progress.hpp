#pragma once

#include <chrono>
#include <optional>

#include "privgrad/core/run.hpp"

namespace privgrad::tool {

/// Shows on standard error how a run gets on: one line that is rewritten in place on a terminal,
/// one line per measurement elsewhere.
class ProgressDisplay {
 public:
  /// \param target_epsilon  nothing: the run has no budget.
  ProgressDisplay(std::optional<double> target_epsilon, bool quiet);
  /// Takes the rewritten line away, so that what follows begins on a clean one.
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(const core::Progress& progress);

 private:
  /// \param both_splits  false: the metrics of the training split, where it has any.
  std::string line(const core::Progress& progress, bool both_splits) const;

  std::optional<double> target_epsilon_;
  bool quiet_;
  bool rewrites_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point drawn_at_;
};

}  // namespace privgrad::tool
