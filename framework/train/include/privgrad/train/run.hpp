// Runs of a plan: their options, their result, and the state that lets them be resumed.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "privgrad/cluster.hpp"
#include "privgrad/data/feature_cache.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/statement/outcome.hpp"
#include "privgrad/train/release_witness.hpp"

namespace privgrad::core {

class RemoteClients;

/// Means over a split; nothing where the split is absent or its metrics may not be shown.
struct Metrics {
  std::optional<double> train_loss, train_accuracy, test_loss, test_accuracy;
  std::optional<double> gradient_norm;  ///< The mean training loss's, if the manifest asks for it.
  std::optional<double> mean_gradient_norm;  ///< mean_gradient_norm_along(); of a run's end alone.
};

nlohmann::json to_json(const Metrics& metrics);

/// Whether every loss that may be shown is finite.
bool has_finite_losses(const Metrics& metrics);

/// One line of the progress display.
struct Progress {
  std::uint64_t step = 0;  ///< Steps done.
  std::uint64_t steps = 0;
  double epsilon = 0.0;  ///< Spent so far; in adaptive federated runs the final claim.
  Metrics metrics;
};

struct RunOptions {
  std::filesystem::path directory;  ///< Made; must not exist, or be empty.
  std::string lock;                 ///< The content of privgrad.lock.
  int threads = 1;
  /// The user's state folder, for files that must not lie in run directories; empty: none.
  std::filesystem::path state{};
  /// The date to write, in the form of Outcome::date; empty: utc_date().
  std::string date{};
  std::function<void(const Progress&)>
      on_progress;                          ///< Called on the calling thread; may be empty.
  const std::atomic<bool>* stop = nullptr;  ///< When it becomes true the run ends after its step.
  /// Resume the run of `directory`, from its last checkpoint in `state`.
  bool resume = false;
  /// For a run that is resumed: repeat what it had shown or been charged for in advance, and end it
  /// there, with the model so far.
  bool finish = false;
  /// Keeps outputs of frozen layers and of costly transforms, private copies of data; null: none.
  /// The run is the same with it as without.
  const FeatureCache* features = nullptr;
  /// The processes of the run, of which this is process 0: the others are in work_for_others().
  /// Null: this process is alone. The run is the same, bit for bit.
  Cluster* cluster = nullptr;
  /// For a federated run: clients that are programs of their own, and hold their examples, noise
  /// and ledgers; this process is the server, and has a plan that was made from facts. It leaves no
  /// checkpoints. Null: clients are simulated here. The model is the same, bit for bit.
  RemoteClients* clients = nullptr;
  /// For comparisons of runs: every release goes through it, except in a run without noise.
  ReleaseWitness* witness = nullptr;
};

/// The outcome, with the metrics and the written texts.
struct RunResult : Outcome {
  Metrics metrics;                          ///< The final model's.
  double seconds = 0.0;                     ///< The training loop's, without reading the data.
  nlohmann::json statement;                 ///< As in statement.json.
  nlohmann::json summary;                   ///< As in summary.json.
  std::optional<std::uint64_t> resumed_at;  ///< Steps before the checkpoint, not made again.
  /// The run was stopped, and can be resumed: its directory has no model, statement or summary yet.
  bool can_be_resumed = false;
  std::string no_checkpoints;  ///< Why there were none, although nobody switched them off.
};

/// run() for a plan with one owner of data.
RunResult central_run(const Plan& plan, const RunOptions& options);
/// work_for_others() for its manifest.
void work_for_central_run(const Manifest& manifest, const RunOptions& options);

/// The file in the directory of an unfinished run that names its private folder, which is no
/// secret.
inline constexpr const char* kResumeFile = "resume.json";

/// Checks that there is a run that can be resumed, before anything is loaded for it. If a run was
/// cut off in its last moment, removes the private state that the run would have removed: it is
/// known by the summary, of which the state holds a copy.
/// \throws ConfigError if the run is finished; IoError if the directory holds no run, or one that
///   left no checkpoint.
void check_resumable(const RunOptions& options);

/// Whether the directory holds a run that was cut off, whose private state is still there and has a
/// checkpoint. A run that was cut off before its first checkpoint was charged for nothing, and
/// begins anew.
bool can_be_resumed(const RunOptions& options);

/// Removes the private state of a run that nobody will resume, if there is any, and the directory's
/// reference to it. State of a run in another directory is left: anybody can write the name of a
/// folder into a directory.
/// \returns the reason, in one line, why state that the directory names was left; "": it was not.
/// \throws IoError
std::string discard_state(const RunOptions& options);

}  // namespace privgrad::core
