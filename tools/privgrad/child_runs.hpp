// Runs calls of this program as child processes, several at a time, and collects how they end.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace privgrad::tool {

/// One call of this program, in a process of its own.
struct ChildCall {
  std::vector<std::string> words;  ///< Without the program.
};

/// How a call ended.
struct ChildEnd {
  bool by_signal = false;
  int code = 0;       ///< Exit code, or the signal.
  std::string error;  ///< The end of its standard error.
};

/// Child processes that run at the same time.
///
/// Processes, not threads: a plugin that crashes ends only its own run, and plugins need not
/// support several runs in one process. A child dies with this process, however that ends (Linux,
/// PR_SET_PDEATHSIG), and signals that a terminal sends reach this process only.
class ChildRuns {
 public:
  struct Ended {
    std::size_t number = 0;
    ChildEnd end;
  };

  ChildRuns();
  ChildRuns(const ChildRuns&) = delete;
  ChildRuns& operator=(const ChildRuns&) = delete;
  /// As kill_all().
  ~ChildRuns();

  /// \param number  its name in wait(); not the number of a running one.
  /// \throws IoError if no process can be created.
  void start(std::size_t number, const ChildCall& call);
  std::size_t running() const noexcept { return running_.size(); }
  /// Waits until one writes something or ends, or until that time has passed.
  /// \returns those that have ended.
  std::vector<Ended> wait(int most_ms);
  void kill_all();

 private:
  class Child;
  std::map<std::size_t, std::unique_ptr<Child>> running_;
};

/// Callbacks about the calls; all run in the thread that runs the calls.
struct ChildObserver {
  std::function<void(std::size_t call)> started;
  std::function<void(std::size_t call, const ChildEnd& end)> ended;
  std::function<void()> waiting;  ///< A few times a second.
};

/// Makes all calls, at most `at_once` at a time, in order of their numbers (ChildRuns).
///
/// \param stop  when it becomes true, the running ones are killed and nothing more is started.
/// \throws IoError if no process can be created.
void run_children(const std::vector<ChildCall>& calls, int at_once, const std::atomic<bool>& stop,
                  const ChildObserver& observer);

}  // namespace privgrad::tool
