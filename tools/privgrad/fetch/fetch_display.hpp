#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "../known_datasets.hpp"
#include "../status_line.hpp"

namespace privgrad::tool {

/// Shows on standard error how a download gets on: a bar on a terminal, elsewhere a line when a
/// file begins, and one every ten seconds.
class FetchDisplay {
 public:
  explicit FetchDisplay(bool quiet) : status_(quiet) {}

  void begin(const DatasetFile& file);
  /// \param here  bytes of the file that have arrived, those of earlier fetches among them.
  void bytes(std::uint64_t here);
  void note(const std::string& text);
  /// Takes the bar away, so that what follows begins on a clean line.
  void end() { status_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;

  std::string bar(std::uint64_t here, Clock::time_point now) const;

  StatusLine status_;
  std::string name_;
  std::uint64_t whole_ = 0;
  std::uint64_t first_ = 0;  ///< What was here before.
  bool begun_ = false;
  Clock::time_point begun_at_;
  Clock::time_point told_at_;  ///< Of the last plain line.
};

}  // namespace privgrad::tool
