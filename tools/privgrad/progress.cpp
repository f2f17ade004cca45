#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "output.hpp"

namespace privgrad::tool {
namespace {

using Clock = std::chrono::steady_clock;

/// More often than this nobody can read it, and a terminal over a network would slow the run.
constexpr auto kRedrawInterval = std::chrono::milliseconds(50);

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

std::string padded_left(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

/// Losses have no natural size, so small ones keep their digits.
std::string loss_text(double loss) {
  return std::isfinite(loss) && loss >= 1e-3 && loss < 1e4 ? fixed(loss, 4) : short_number(loss);
}

/// Never below the value: it is read as what was spent at most.
std::string spent_text(double epsilon) {
  return std::isfinite(epsilon) ? fixed(std::ceil(epsilon * 1e4) / 1e4, 4) : "inf";
}

void add_metric(std::string& line, const char* name, const std::optional<double>& train,
                const std::optional<double>& test, std::string (*format)(double)) {
  if (!train && !test) return;
  line += std::string("  ") + name;
  if (train) line += " " + format(*train);
  if (test) line += (train ? " (test " : " test ") + format(*test) + (train ? ")" : "");
}

}  // namespace

ProgressDisplay::ProgressDisplay(std::optional<double> target_epsilon, bool quiet)
    : target_epsilon_(target_epsilon), quiet_(quiet), rewrites_(is_terminal(STDERR_FILENO)) {}

ProgressDisplay::~ProgressDisplay() {
  if (drawn_) write("\r\033[K");
}

std::string ProgressDisplay::line(const core::Progress& progress, bool both_splits) const {
  const std::string steps = std::to_string(progress.steps);
  std::string line =
      "step " + padded_left(std::to_string(progress.step), steps.size()) + "/" + steps;
  core::Metrics m = progress.metrics;
  if (!both_splits && m.train_loss) m.test_loss.reset();
  if (!both_splits && m.train_accuracy) m.test_accuracy.reset();
  add_metric(line, "loss", m.train_loss, m.test_loss, loss_text);
  add_metric(line, "accuracy", m.train_accuracy, m.test_accuracy,
             [](double value) { return fixed(value, 4); });
  line += "  epsilon " + spent_text(progress.epsilon);
  if (target_epsilon_) line += " of " + format_number(*target_epsilon_);
  return line;
}

void ProgressDisplay::show(const core::Progress& progress) {
  if (quiet_) return;
  if (!rewrites_) return write(line(progress, true) + "\n");

  const auto now = Clock::now();
  const bool last = progress.step == progress.steps;
  if (drawn_ && !last && now - drawn_at_ < kRedrawInterval) return;
  // A line that wraps could not be rewritten.
  const std::size_t room = terminal_width() - 1;
  std::string text = line(progress, true);
  if (text.size() > room) text = line(progress, false);
  text.resize(std::min(text.size(), room));
  write("\r" + text + "\033[K");
  drawn_ = true;
  drawn_at_ = now;
}

}  // namespace privgrad::tool
