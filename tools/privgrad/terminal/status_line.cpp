#include "status_line.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "output.hpp"
#include "table.hpp"
#include "terminal_text.hpp"

namespace privgrad::tool {
namespace {

using Clock = std::chrono::steady_clock;

/// The time between two changes: faster changes are unreadable, and slow down work on a terminal
/// over a network.
constexpr auto kRedrawInterval = std::chrono::milliseconds(50);

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

/// Returns the first `count` characters of UTF-8 text.
std::string cut(const std::string& text, std::size_t count) {
  std::size_t end = text.size();
  while (character_count(text.substr(0, end)) > count) --end;
  return text.substr(0, end);
}

}  // namespace

StatusLine::StatusLine(bool quiet)
    : quiet_(quiet), rewrites_(!quiet && is_terminal(STDERR_FILENO)) {}

StatusLine::~StatusLine() { clear(); }

std::size_t StatusLine::room() const { return terminal_width() - 1; }

bool StatusLine::is_due() const { return !drawn_ || Clock::now() - drawn_at_ >= kRedrawInterval; }

void StatusLine::rewrite(const std::string& text) {
  write("\r" + cut(terminal_line(text), room()) + "\033[K");
  drawn_ = true;
  drawn_at_ = Clock::now();
}

void StatusLine::print(const std::string& text) {
  if (quiet_) return;
  clear();
  write(terminal_line(text) + "\n");
}

void StatusLine::clear() {
  if (drawn_) write("\r\033[K");
  drawn_ = false;
}

}  // namespace privgrad::tool
