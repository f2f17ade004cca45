#include "study_progress.hpp"

#include "output.hpp"

namespace privgrad::tool {

StudyProgress::StudyProgress(std::size_t runs, std::size_t done, double work, bool quiet)
    : runs_(runs), done_(done), work_(work), status_(quiet) {}

void StudyProgress::started(const std::string& run) {
  running_.insert(run);
  draw();
}

void StudyProgress::ended(const std::string& run, const std::string& outcome, double work) {
  running_.erase(run);
  work_done_ += work;
  ++done_;
  if (!status_.rewrites()) {
    status_.print("[" + std::to_string(done_) + "/" + std::to_string(runs_) + "] " + run + ": " +
                  outcome);
  }
  draw(true);
}

/// Scales the estimates by the measured speed of this call's earlier runs.
std::string StudyProgress::remaining() const {
  if (work_done_ <= 0.0) return "";
  const double elapsed = std::chrono::duration<double>(Clock::now() - began_).count();
  return ", about " + duration_text(elapsed * (work_ - work_done_) / work_done_) + " left";
}

std::string StudyProgress::line() const {
  std::string text = std::to_string(done_) + "/" + std::to_string(runs_) + " runs done, " +
                     std::to_string(running_.size()) + " running" + remaining();
  std::string names;
  for (const std::string& run : running_) names += (names.empty() ? ": " : ", ") + run;
  if (text.size() + names.size() <= status_.room()) text += names;
  return text;
}

void StudyProgress::draw(bool at_once) {
  if (status_.rewrites() && (at_once || status_.is_due())) status_.rewrite(line());
}

}  // namespace privgrad::tool
