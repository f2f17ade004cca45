#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace privgrad::tool {

/// What standard error shows while something takes long: on a terminal one line that is rewritten
/// in place, elsewhere plain lines. On one thread.
class StatusLine {
 public:
  explicit StatusLine(bool quiet);
  /// Takes the rewritten line away, so that what follows begins on a clean one.
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Whether anything is shown at all.
  bool quiet() const noexcept { return quiet_; }
  /// Whether there is a terminal that lines can be rewritten on.
  bool rewrites() const noexcept { return rewrites_; }
  /// How many characters fit into the rewritten line: one that wraps could not be rewritten.
  std::size_t room() const;

  /// Whether a line that was rewritten now would be drawn, or would come too soon after the last.
  bool is_due() const;
  /// Replaces the line, cut to what fits.
  /// \pre rewrites()
  void rewrite(const std::string& text);
  /// A line of its own that stays.
  void print(const std::string& text);
  /// Takes the rewritten line away.
  void clear();

 private:
  bool quiet_;
  bool rewrites_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point drawn_at_;
};

}  // namespace privgrad::tool
