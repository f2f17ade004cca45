#include "progress.hpp"

#include <cmath>
#include <string>

#include "output.hpp"

namespace privgrad::tool {
namespace {

std::string padded_left(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

/// Losses have no natural scale, so very small and very large losses have another format.
std::string loss_text(double loss) {
  return std::isfinite(loss) && loss >= 1e-3 && loss < 1e4 ? fixed_text(loss, 4)
                                                           : short_number(loss);
}

/// Rounds up, because readers take the number for the most that was spent.
std::string spent_text(double epsilon) {
  return std::isfinite(epsilon) ? fixed_bound(epsilon, 4) : "inf";
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
    : target_epsilon_(target_epsilon), status_(quiet) {}

std::string ProgressDisplay::line(const core::Progress& progress, Detail detail) const {
  const std::string steps = std::to_string(progress.steps);
  std::string line =
      "step " + padded_left(std::to_string(progress.step), steps.size()) + "/" + steps;
  core::Metrics m = progress.metrics;
  if (detail != Detail::all && m.train_loss) m.test_loss.reset();
  if (detail != Detail::all && m.train_accuracy) m.test_accuracy.reset();
  if (detail == Detail::one_metric && (m.train_loss || m.test_loss)) {
    m.train_accuracy.reset();
    m.test_accuracy.reset();
  }
  add_metric(line, "loss", m.train_loss, m.test_loss, loss_text);
  add_metric(line, "accuracy", m.train_accuracy, m.test_accuracy,
             [](double value) { return fixed_text(value, 4); });
  line += "  epsilon " + spent_text(progress.epsilon);
  if (target_epsilon_) line += " of " + format_number(*target_epsilon_);
  return line;
}

std::string ProgressDisplay::remaining(const core::Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  if (!first_) first_ = {progress.step, now};
  const auto [step, time] = *first_;
  if (progress.step <= step || progress.step >= progress.steps) return "";
  const double seconds = std::chrono::duration<double>(now - time).count();
  const auto to_go = static_cast<double>(progress.steps - progress.step);
  return "  " + duration_text(seconds / static_cast<double>(progress.step - step) * to_go) +
         " left";
}

void ProgressDisplay::show(const core::Progress& progress) {
  if (status_.quiet()) return;
  if (!status_.rewrites()) return status_.print(line(progress, Detail::all));

  const std::string left = remaining(progress);
  const bool last = progress.step == progress.steps;
  if (!last && !status_.is_due()) return;
  std::string text;
  for (const Detail detail : {Detail::all, Detail::one_split, Detail::one_metric}) {
    text = line(progress, detail) + left;
    if (text.size() <= status_.room()) break;
  }
  status_.rewrite(text);
}

}  // namespace privgrad::tool
