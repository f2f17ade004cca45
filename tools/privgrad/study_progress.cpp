#include "study_progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "output.hpp"

namespace privgrad::tool {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(200);

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

StudyProgress::StudyProgress(std::size_t runs, std::size_t done, double work, bool quiet)
    : runs_(runs), done_(done), work_(work), quiet_(quiet), rewrites_(is_terminal(STDERR_FILENO)) {}

StudyProgress::~StudyProgress() {
  if (drawn_) write("\r\033[K");
}

void StudyProgress::started(const std::string& run) {
  running_.insert(run);
  draw();
}

void StudyProgress::ended(const std::string& run, const std::string& outcome, double work) {
  running_.erase(run);
  work_done_ += work;
  ++done_;
  if (!quiet_ && !rewrites_) {
    write("[" + std::to_string(done_) + "/" + std::to_string(runs_) + "] " + run + ": " + outcome +
          "\n");
  }
  draw(true);
}

/// From how fast the runs of this call were against their estimates.
std::string StudyProgress::remaining() const {
  if (work_done_ <= 0.0) return "";
  const double elapsed = std::chrono::duration<double>(Clock::now() - began_).count();
  return ", about " + duration_text(elapsed * (work_ - work_done_) / work_done_) + " left";
}

std::string StudyProgress::line(std::size_t room) const {
  std::string text = std::to_string(done_) + "/" + std::to_string(runs_) + " runs done, " +
                     std::to_string(running_.size()) + " running" + remaining();
  std::string names;
  for (const std::string& run : running_) names += (names.empty() ? ": " : ", ") + run;
  if (text.size() + names.size() <= room) text += names;
  text.resize(std::min(text.size(), room));
  return text;
}

void StudyProgress::draw(bool at_once) {
  if (quiet_ || !rewrites_) return;
  const auto now = Clock::now();
  if (drawn_ && !at_once && now - drawn_at_ < kRedrawInterval) return;
  write("\r" + line(terminal_width() - 1) + "\033[K");
  drawn_ = true;
  drawn_at_ = now;
}

}  // namespace privgrad::tool
