// A status line on standard error for tasks that take long; on a terminal it is rewritten in place.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace privgrad::tool {

/// The status of a long task on standard error: on a terminal one line that is rewritten in place,
/// elsewhere plain lines. For one thread.
class StatusLine {
 public:
  explicit StatusLine(bool quiet);
  /// Removes the rewritten line, so that further output begins on an empty line.
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Whether nothing is shown.
  bool quiet() const noexcept { return quiet_; }
  /// Whether standard error is a terminal on which lines can be rewritten.
  bool rewrites() const noexcept { return rewrites_; }
  /// How many characters fit into the rewritten line. A line that wraps could not be rewritten.
  std::size_t room() const;

  /// Whether enough time has passed since the last rewrite for the next one to be drawn.
  bool is_due() const;
  /// Replaces the line, cut to room() characters.
  /// \pre rewrites()
  void rewrite(const std::string& text);
  /// Prints a separate line that stays on the screen.
  void print(const std::string& text);
  /// Removes the rewritten line.
  void clear();

 private:
  bool quiet_;
  bool rewrites_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point drawn_at_;
};

}  // namespace privgrad::tool
