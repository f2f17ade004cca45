#include "planning_display.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "status_line.hpp"

namespace privgrad::tool {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

/// Shows the number of trials until it is destroyed. The plan is made on the caller's thread, where
/// a single trial may take minutes, so a separate thread writes the output.
class PlanningDisplay {
 public:
  explicit PlanningDisplay(bool quiet) : status_(quiet) {
    if (!quiet) thread_ = std::thread([this] { show(); });
  }
  ~PlanningDisplay() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  PlanningDisplay(const PlanningDisplay&) = delete;
  PlanningDisplay& operator=(const PlanningDisplay&) = delete;

  void count() { ++trials_; }

 private:
  void show() {
    const auto began = Clock::now();
    auto next = began + (status_.rewrites() ? seconds(1) : seconds(10));
    for (std::unique_lock lock(mutex_); !wake_.wait_until(lock, next, [&] { return over_; });) {
      const auto took = std::chrono::duration_cast<seconds>(Clock::now() - began);
      const std::uint64_t trials = trials_;
      const std::string text = "planning: " + std::to_string(took.count()) + " s, trial " +
                               std::to_string(trials) + " of the calibration";
      if (trials > 0) status_.rewrites() ? status_.rewrite(text) : status_.print(text);
      next = Clock::now() + (status_.rewrites() ? seconds(1) : took);
    }
  }

  StatusLine status_;  // used by thread_ and, after it has ended, by the destructor
  std::atomic<std::uint64_t> trials_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace

core::Plan make_shown_plan(core::Manifest& manifest, const Arguments& arguments) {
  PlanningDisplay display(arguments.has("quiet"));
  manifest.on_trial = [&display] { display.count(); };
  struct Reset {
    core::Manifest& manifest;
    ~Reset() { manifest.on_trial = nullptr; }
  } const reset{manifest};
  return core::make_plan(manifest);
}

}  // namespace privgrad::tool
