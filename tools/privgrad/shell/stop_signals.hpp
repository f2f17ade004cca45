// Lets SIGINT and SIGTERM end a run gracefully, after its step.
#pragma once

#include <atomic>

namespace privgrad::tool {

/// While this object lives, the first SIGINT or SIGTERM sets flag(), which asks the run to end
/// after its step; a second signal ends the process at once. Only one object may exist at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& flag() const noexcept;
};

}  // namespace privgrad::tool
