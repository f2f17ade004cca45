#include "recorded_run.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "privgrad/federated/any_run.hpp"

namespace privgrad::core {
namespace {

/// Whether a run can continue with another run's releases instead of its own.
bool can_stand_for(std::span<const Released> others, std::span<const Released> own) {
  return std::ranges::equal(others, own, [](const Released& a, const Released& b) {
    return a.values().size() == b.values().size();
  });
}

}  // namespace

RecordedRun::RecordedRun(const Plan& plan, const std::filesystem::path& directory,
                         const Options& options)
    : led_by_(options.led_by), steps_(options.steps), directory_(directory) {
  try {
    const RunResult result = run(plan, {.directory = directory,
                                        .lock = "",
                                        .threads = options.threads,
                                        // A fixed date, because the two runs begin at different
                                        // times.
                                        .state = {},
                                        .date = "1970-01-01T00:00:00Z",
                                        .on_progress = {},
                                        .stop = &stop_,
                                        .witness = this});
    end_ = std::string(to_text(result.status)) + " after step " + std::to_string(result.steps);
    const Metrics& metrics = result.metrics;
    diverged_by_training_loss_ = result.status == RunStatus::diverged &&
                                 !std::isfinite(metrics.train_loss.value_or(0.0)) &&
                                 std::isfinite(metrics.test_loss.value_or(0.0));
  } catch (const std::exception& problem) {
    end_ = problem.what();
    thrown_ = std::current_exception();
  }
}

const RecordedRelease* RecordedRun::find(const ReleaseName& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

std::span<const Released> RecordedRun::released(const ReleaseSeen& seen,
                                                std::vector<Released> own) {
  const ReleaseName name{seen.client, seen.what, seen.step};
  const RecordedRelease* other = led_by_ == nullptr ? nullptr : led_by_->find(name);
  const std::lock_guard lock(mutex_);
  RecordedRelease& made = by_name_[name];
  made = {.name = name,
          .batch = {seen.batch.begin(), seen.batch.end()},
          .model = {seen.model.begin(), seen.model.end()},
          .reached = {seen.reached.begin(), seen.reached.end()},
          .clip_norm = seen.clip_norm,
          .own = std::move(own)};
  in_order_.push_back(&made);
  if (seen.what == ReleaseSeen::What::gradient && seen.step + 1 >= steps_) stop_ = true;
  return other != nullptr && can_stand_for(other->own, made.own) ? other->own : made.own;
}

}  // namespace privgrad::core
