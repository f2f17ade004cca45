// Limits how long a test waits, so that it fails with a message before CTest kills it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSlowness = 10;  ///< The factor by which tests may take longer in this build.
#else
inline constexpr int kSlowness = 1;
#endif

namespace time_limit {

using Clock = std::chrono::steady_clock;

inline const Clock::time_point kBegun = Clock::now();

/// Returns the end of a wait that begins now for something that may never happen: slightly before
/// CTest kills the test, because then its messages would be lost. PRIVGRAD_TEST_TIMEOUT
/// (tests/CMakeLists.txt) is CTest's limit in seconds; without it, each wait has 100 seconds.
inline Clock::time_point default_end() {
  const auto now = Clock::now();
  const char* told = std::getenv("PRIVGRAD_TEST_TIMEOUT");
  if (told == nullptr) return now + std::chrono::seconds(100 * kSlowness);
  const double limit = std::stod(told);
  const std::chrono::duration<double> usable(limit - std::max(5.0, limit / 12));
  return std::max(kBegun + std::chrono::duration_cast<Clock::duration>(usable),
                  now + std::chrono::seconds(1));
}

}  // namespace time_limit
