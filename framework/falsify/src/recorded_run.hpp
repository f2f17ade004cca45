// A run that records its releases, and that can be led through the releases of another run.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "privgrad/plan/plan.hpp"
#include "privgrad/train/release_witness.hpp"

namespace privgrad::core {

/// Identifies a release in a run.
struct ReleaseName {
  std::optional<std::size_t> client = std::nullopt;
  ReleaseSeen::What what = ReleaseSeen::What::gradient;
  std::uint64_t step = 0;

  bool operator<(const ReleaseName& other) const {
    return std::tie(client, what, step) < std::tie(other.client, other.what, other.step);
  }
};

/// A copy of everything that a witness sees of a release.
struct RecordedRelease {
  ReleaseName name;
  std::vector<std::uint32_t> batch;
  std::vector<float> model, reached;
  double clip_norm = 0.0;
  /// The releases that this run computed, even if it continued with releases of another run.
  std::vector<Released> own;
};

/// A run of a plan's first steps, in a directory, with all its releases. A second run on different
/// rows can be led through these releases: it continues with them instead of its own.
class RecordedRun final : public ReleaseWitness {
 public:
  struct Options {
    std::uint64_t steps = 1;  ///< The run stops when its owner or a client has made so many steps.
    int threads = 1;
    const RecordedRun* led_by = nullptr;  ///< Outlives this.
  };

  /// Makes the run.
  /// \param directory  the directory for the run; must not exist.
  RecordedRun(const Plan& plan, const std::filesystem::path& directory, const Options& options);

  std::span<const Released> released(const ReleaseSeen& seen, std::vector<Released> own) override;

  /// All releases; with one thread, in the order in which they were made.
  std::span<const RecordedRelease* const> releases() const { return in_order_; }
  /// The release with this name; null if the run did not make it.
  const RecordedRelease* find(const ReleaseName& name) const;

  /// How the run ended: "completed after step 3", or the text of the exception.
  const std::string& end() const { return end_; }
  /// Whether the run's status is "diverged" because of a training loss. Research mode publishes
  /// this loss anyway, so the status reveals no more.
  bool diverged_by_training_loss() const { return diverged_by_training_loss_; }
  /// The exception that was thrown; null if there was none.
  const std::exception_ptr& thrown() const { return thrown_; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  const RecordedRun* led_by_;
  std::uint64_t steps_;
  std::filesystem::path directory_;
  std::mutex mutex_;
  std::map<ReleaseName, RecordedRelease> by_name_;
  std::vector<const RecordedRelease*> in_order_;
  std::atomic<bool> stop_ = false;
  std::string end_;
  bool diverged_by_training_loss_ = false;
  std::exception_ptr thrown_;
};

}  // namespace privgrad::core
