#include "long_call.hpp"

#include <nanobind/stl/string.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace privgrad::python {
namespace {

namespace nb = nanobind;

/// The state shared by the two threads.
struct Exchange {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> reports;
  bool done = false;
  std::atomic<bool> stop{false};

  void report(const std::string& text) {
    {
      const std::lock_guard hold(mutex);
      reports.push_back(text);
    }
    changed.notify_one();
  }
  void finish() {
    {
      const std::lock_guard hold(mutex);
      done = true;
    }
    changed.notify_one();
  }
  /// Waits for a while. \returns whether the call has ended and all reports were taken.
  bool take(std::deque<std::string>& to) {
    std::unique_lock hold(mutex);
    changed.wait_for(hold, std::chrono::milliseconds(50),
                     [this] { return done || !reports.empty(); });
    to.swap(reports);
    return done;
  }
};

}  // namespace

nb::tuple long_call(const std::function<std::string(const Watch&)>& call, nb::object callback) {
  Exchange exchange;
  std::string result;
  std::exception_ptr failure;
  std::thread worker([&] {
    try {
      const Watch watch{&exchange.stop,
                        callback.is_none() ? Listener() : [&](const std::string& text) {
                          exchange.report(text);
                        }};
      result = call(watch);
    } catch (...) {
      failure = std::current_exception();
    }
    exchange.finish();
  });
  nb::object stopped_by = nb::none();
  for (bool over = false; !over;) {
    std::deque<std::string> reports;
    {
      const nb::gil_scoped_release release;
      over = exchange.take(reports);
    }
    try {
      for (const std::string& report : reports) {
        if (stopped_by.is_none()) callback(report);
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    } catch (nb::python_error& problem) {
      if (stopped_by.is_none()) stopped_by = nb::borrow(problem.value());
      exchange.stop.store(true);
    }
  }
  {
    const nb::gil_scoped_release release;
    worker.join();
  }
  if (failure && stopped_by.is_none()) std::rethrow_exception(failure);
  if (failure) return nb::make_tuple(nb::none(), std::move(stopped_by));
  return nb::make_tuple(nb::str(result.c_str(), result.size()), std::move(stopped_by));
}

}  // namespace privgrad::python
