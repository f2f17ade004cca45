// Runs calls of this program as child processes, several at a time, and collects their exit codes.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace privgrad::tool {

/// One call of this program, to be made in its own process.
struct ChildCall {
  std::vector<std::string> words;  ///< The arguments without the program's name.
};

/// How a call ended.
struct ChildEnd {
  bool by_signal = false;
  int code = 0;       ///< Exit code, or the signal.
  std::string error;  ///< The last bytes of the call's standard error.
};

/// Child processes that run at the same time.
///
/// They are processes, not threads, so a plugin that crashes ends only its own run, and plugins
/// need not support several runs in one process. A child dies with this process, however this
/// process ends (Linux, PR_SET_PDEATHSIG). Signals from a terminal reach only this process.
class ChildRuns {
 public:
  struct Ended {
    std::size_t number = 0;
    ChildEnd end;
  };

  ChildRuns();
  ChildRuns(const ChildRuns&) = delete;
  ChildRuns& operator=(const ChildRuns&) = delete;
  /// Kills the children that are still running.
  ~ChildRuns();

  /// \param number  identifies the child in wait(); must not be the number of a running child.
  /// \throws IoError if no process can be created.
  void start(std::size_t number, const ChildCall& call);
  std::size_t running() const noexcept { return running_.size(); }
  /// Waits until a child writes something or ends, or until `most_ms` have passed. \returns the
  /// children that have ended.
  std::vector<Ended> wait(int most_ms);
  /// Asks all children to end in an orderly way (SIGTERM), and kills children that still run after
  /// `most_ms`.
  void stop(int most_ms);

 private:
  class Child;
  std::map<std::size_t, std::unique_ptr<Child>> running_;
};

}  // namespace privgrad::tool
