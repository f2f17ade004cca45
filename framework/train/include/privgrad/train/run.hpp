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
  std::optional<double> gradient_norm;  ///< Of the mean training loss; if the manifest asks for it.
};

nlohmann::json to_json(const Metrics& metrics);

/// Whether no loss that may be shown is infinite or no number.
bool has_finite_losses(const Metrics& metrics);

/// One line of the progress display.
struct Progress {
  std::uint64_t step = 0;  ///< Steps done.
  std::uint64_t steps = 0;
  double epsilon = 0.0;  ///< Spent so far; of adaptive federated runs what is claimed in the end.
  Metrics metrics;
};

struct RunOptions {
  std::filesystem::path directory;  ///< Made; must not exist, or be empty.
  std::string lock;                 ///< Content of privgrad.lock.
  int threads = 1;
  /// The user's own, outside run directories, for what must not lie in them; empty: none.
  std::filesystem::path state{};
  /// What is written for the date, in the form of Outcome::date; empty: utc_date().
  std::string date{};
  /// What the summary calls the directory, if it is about to lie elsewhere; empty: `directory`.
  std::filesystem::path called{};
  std::function<void(const Progress&)>
      on_progress;                          ///< Called on the calling thread; may be empty.
  const std::atomic<bool>* stop = nullptr;  ///< When it becomes true the run ends after its step.
  /// Go on with the run of `directory`, from its last checkpoint in `state`.
  bool resume = false;
  /// Of a run that is resumed: make again what it had shown or been charged for in advance, and end
  /// it there, with the model so far.
  bool finish = false;
  /// For the outputs of frozen layers, private copies of data; null: none. A run makes the same with it
  /// as without.
  const FeatureCache* features = nullptr;
  /// More than one process, of which this is process 0: the others are in work_for_others(). Null: this
  /// process is alone. The run is the same, bit for bit.
  Cluster* cluster = nullptr;
  /// Of a federated run: clients that are programs of their own, and hold their examples, noise and
  /// ledgers; this process is the server, and has a plan that was made from facts. It leaves no
  /// checkpoints. Null: clients are simulated here. The model is the same, bit for bit.
  RemoteClients* clients = nullptr;
  /// Of comparisons of runs: has every release go through it, but for those of a run without noise.
  ReleaseWitness* witness = nullptr;
};

/// The outcome, and what was measured and written.
struct RunResult : Outcome {
  Metrics metrics;                          ///< Of the final model.
  double seconds = 0.0;                     ///< Of the training loop, without reading the data.
  nlohmann::json statement;                 ///< As in statement.json.
  nlohmann::json summary;                   ///< As in summary.json.
  std::optional<std::uint64_t> resumed_at;  ///< The steps that were not made again.
  /// The run was stopped, and can be resumed: its directory has no model, statement or summary yet.
  bool can_be_resumed = false;
  std::string no_checkpoints;  ///< Why there were none, if nobody asked for that.
};

/// run() for a plan of one owner of data.
RunResult central_run(const Plan& plan, const RunOptions& options);
/// work_for_others() for its manifest.
void work_for_central_run(const Manifest& manifest, const RunOptions& options);

/// In the directory of a run that is not over: the name of its private folder, which is no secret.
inline constexpr const char* kResumeFile = "resume.json";

/// Looks whether there is a run that can be resumed, before anything is loaded for it. Of one whose
/// last moment was cut off, takes away the private state that it would have taken away: known by the
/// summary, of which that state holds a copy.
/// \throws ConfigError if the run is finished; IoError if the directory holds no run, or one that left
///   no checkpoint.
void check_resumable(const RunOptions& options);

/// Whether the directory holds a run that was cut off, whose private state is still there and has a
/// checkpoint. One that was cut off before its first checkpoint was charged for nothing, and begins
/// anew.
bool can_be_resumed(const RunOptions& options);

/// Takes away the private state of a run that nobody will go on with, if there is any, and the
/// directory's word of it. State of a run in another directory is left: anybody can write the name of
/// a folder into a directory.
/// \returns why state that the directory names was left where it is, as a line; "": it was not.
/// \throws IoError
std::string discard_state(const RunOptions& options);

}  // namespace privgrad::core
