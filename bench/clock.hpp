// The clock of the benchmarks, and statistics of its times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <functional>
#include <vector>

namespace privgrad::bench {

/// Processor time on one thread, because other programs disturb it less; wall-clock time on several
/// threads.
inline clockid_t used_clock = CLOCK_PROCESS_CPUTIME_ID;

inline double now() {
  timespec time{};
  ::clock_gettime(used_clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double seconds_of(const std::function<void()>& work) {
  const double begin = now();
  work();
  return now() - begin;
}

/// Returns the time of the fastest of `repeats` runs, after one run that does not count. Slower
/// runs were disturbed.
inline double best_seconds(int repeats, const std::function<void()>& work) {
  work();
  double best = 1e300;
  for (int i = 0; i < repeats; ++i) best = std::min(best, seconds_of(work));
  return best;
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace privgrad::bench
