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
#include "privgrad/record/run_lines.hpp"
#include "privgrad/statement/outcome.hpp"
#include "privgrad/train/release_witness.hpp"

namespace privgrad::core {

class RemoteClients;

/// Whether the losses in `metrics` are finite; an absent loss counts as finite.
bool has_finite_losses(const Metrics& metrics);

/// One line of the progress display.
struct Progress {
  std::uint64_t step = 0;  ///< Steps made.
  std::uint64_t steps = 0;
  double epsilon = 0.0;  ///< Spent so far; in adaptive federated runs: of all planned steps.
  Metrics metrics;
};

struct RunOptions {
  std::filesystem::path directory;  ///< The run creates it; if it exists, it must be empty.
  std::string lock;                 ///< The content of privgrad.lock.
  int threads = 1;
  /// The user's state folder, for files that must not be in run directories; may be empty.
  std::filesystem::path state{};
  /// The date to write, in the form of Outcome::date; empty: utc_date().
  std::string date{};
  std::function<void(const Progress&)>
      on_progress;  ///< Called on the calling thread; may be empty.
  /// The run ends after the step during which this becomes true; may be null.
  const std::atomic<bool>* stop = nullptr;
  /// Whether to resume the run of `directory` from its last checkpoint in `state`.
  bool resume = false;
  /// Whether a resumed run ends, with the model so far, once it has repeated the steps that were
  /// paid for or whose output was published.
  bool finish = false;
  /// Stores outputs of frozen layers and of costly transforms, all as private as the data. Changes
  /// no result. Null: no cache.
  const FeatureCache* features = nullptr;
  /// The processes of the run: process 0 calls run(), and the others call work_for_others(). Null
  /// if this process is alone. Results have the same bits either way.
  Cluster* cluster = nullptr;
  /// For a federated run: clients that are separate programs, with their own examples, noise and
  /// ledgers; this process is the server, and its plan was made from facts. Such a run makes no
  /// checkpoints. Null if clients are simulated here. The model has the same bits in both cases.
  RemoteClients* clients = nullptr;
  /// For comparisons of runs: every release passes through it, except in a run without noise.
  ReleaseWitness* witness = nullptr;
};

/// The outcome, with the metrics and the written texts.
struct RunResult : Outcome {
  Metrics metrics;           ///< Of the final model.
  double seconds = 0.0;      ///< The time of the training loop, without reading the data.
  nlohmann::json statement;  ///< As in statement.json.
  nlohmann::json summary;    ///< As in summary.json.
  /// In a resumed run: the number of steps before the checkpoint. They were not repeated.
  std::optional<std::uint64_t> resumed_at;
  /// Whether the run was stopped and can be resumed: its directory has no model, statement or
  /// summary yet.
  bool can_be_resumed = false;
  /// The reason why no checkpoints could be made; "" if they were made or switched off.
  std::string no_checkpoints;
};

/// Does the same as run(), for a plan with one owner of data.
RunResult central_run(const Plan& plan, const RunOptions& options);
/// Does the same as work_for_others(), for a manifest with one owner of data.
void work_for_central_run(const Manifest& manifest, const RunOptions& options);

/// The file in the directory of an unfinished run that names its private folder; not secret.
inline constexpr const char* kResumeFile = "resume.json";

/// Checks that there is a resumable run, before anything is loaded for it. If a run was interrupted
/// at its very end, this also removes its private state, which contains a copy of the summary.
/// \throws ConfigError if the run is finished; IoError if the directory contains no run, or a run
///   without a checkpoint.
void check_resumable(const RunOptions& options);

/// Whether the directory contains an interrupted run whose private state still exists and has a
/// checkpoint. A run that was interrupted before its first checkpoint was charged nothing, and must
/// be started again.
bool can_be_resumed(const RunOptions& options);

/// Removes any private state of a run that will not be resumed, and the directory's reference to
/// this state. The state of a run in another directory is not removed, because anyone can write the
/// name of a folder into a directory.
/// \returns a one-line reason if state that the directory names was not removed; otherwise "".
/// \throws IoError if the state is in use or cannot be removed.
std::string discard_state(const RunOptions& options);

}  // namespace privgrad::core
