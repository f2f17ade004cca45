// Shows the progress of a download on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "known_datasets.hpp"
#include "status_line.hpp"

namespace privgrad::tool {

/// Shows the progress of a download on standard error: a bar on a terminal; elsewhere one line when
/// a file begins and one every ten seconds.
class FetchDisplay {
 public:
  explicit FetchDisplay(bool quiet) : status_(quiet) {}

  void begin(const DatasetFile& file);
  /// \param here  the bytes of the file that have arrived, including those of earlier fetches.
  void bytes(std::uint64_t here);
  void note(const std::string& text);
  /// Removes the bar, so that further output begins on a clean line.
  void end() { status_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;

  std::string bar(std::uint64_t here, Clock::time_point now) const;

  StatusLine status_;
  std::string name_;
  std::uint64_t whole_ = 0;
  std::uint64_t first_ = 0;  ///< Bytes that were already there at the beginning.
  bool begun_ = false;
  Clock::time_point begun_at_;
  Clock::time_point told_at_;  ///< Time of the last plain line.
};

}  // namespace privgrad::tool
