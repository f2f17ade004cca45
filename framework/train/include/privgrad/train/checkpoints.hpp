// Makes and stores the checkpoints of a run, and resumes a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "privgrad/data/data_commitment.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/record/checkpoint_folder.hpp"
#include "privgrad/train/run.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The reason why a run cannot make checkpoints in this state folder; "" if it can.
std::string why_no_checkpoints(const std::filesystem::path& state);

/// Whether a resumed run may repeat steps: always without noise; otherwise only with exact sums, by
/// a program that promises to repeat them bit for bit (ExactClipping, ReproducibleRows).
bool steps_are_repeatable(const Plan& plan);

/// The hash of the transformed training examples if some transform does not promise to reproduce
/// its rows; otherwise "". The hash is private, and is compared when a run is resumed.
std::string transformed_hash(const Setting& setting, const Dataset& train);

/// The hash of the row numbers of each client's examples. It is private, and is compared when a run
/// is resumed.
std::string hash_of_shards(const FederatedPlan& federated);

/// The key from which the plan of a resumed run draws the order of examples and the clients.
/// \throws IoError if the run's private folder is missing, or does not contain the key.
RandomKey kept_plan_key(const std::filesystem::path& directory, const std::filesystem::path& state);

/// The schedules with which a resumed run began, as a text for KeptNumbers.
/// \throws IoError if the run's private folder is missing, or does not contain the schedules.
std::string kept_schedules(const std::filesystem::path& directory,
                           const std::filesystem::path& state);

/// The hash of published parameters and of `more`, a text that is published with them.
std::string hash_of_shown(std::span<const float> parameters, std::string_view more);

/// Prepares the directory of a new run. If an earlier run in it was interrupted before its first
/// charge and checkpoint, that run's files and private folder are removed. Anything else in the
/// directory is left alone, and the directory is then refused (make_run_directory()). While one run
/// has this object, any other run that begins in the same directory waits in the constructor.
class RoomForRun {
 public:
  /// \throws IoError if the directory cannot be made or read.
  explicit RoomForRun(const RunOptions& options);
  ~RoomForRun();
  RoomForRun(const RoomForRun&) = delete;
  RoomForRun& operator=(const RoomForRun&) = delete;

 private:
  int descriptor_ = -1;
};

/// The checkpoints of one run: when and where to write them, and what the run has published.
class Checkpoints {
 public:
  /// For a new run: makes its private folder, and writes the folder's name to the run's directory.
  static Checkpoints begin(const Plan& plan, const RunOptions& options);
  /// Opens the private folder of an interrupted run.
  /// \throws ConfigError if it is finished; IoError if the directory contains no run, or there is
  ///   nothing from which to resume.
  static Checkpoints take_up(const Plan& plan, const RunOptions& options);

  /// The text from which the keys of the run's steps are derived. It contains everything that
  /// decides a step's release, so a copied state that continues with different input never draws
  /// the same noise.
  static std::string bound_to(const Plan& plan, const std::string& lock,
                              const DataCommitment& data);

  /// Returns the text that was last given to write().
  /// \throws PrivacyError naming a part of the run that was changed since (bound_to()); IoError if
  ///   there is no usable checkpoint.
  std::string content(const Plan& plan, const RunOptions& options);

  /// Whether a checkpoint is due after this step or, in a federated run, after this round.
  bool is_due(std::uint64_t steps_done) const;
  /// Makes a checkpoint.
  /// \param body  the text that content() will return.
  void write(const Plan& plan, const RunOptions& options, std::string_view body);

  /// Records the hash of content that is about to be published; returns once the record is on the
  /// disk.
  void bind(const std::string& what, const std::string& hash) {
    folder_.bind(shown_, what, hash);
    ++shown_;
  }
  std::uint64_t shown() const noexcept { return shown_; }
  void set_shown(std::uint64_t shown) noexcept { shown_ = shown; }
  /// Whether a resumed run has yet to repeat an output whose hash is recorded.
  bool is_behind() const { return shown_ < folder_.bindings(); }

  std::string settle_summary(const std::string& text) { return folder_.settle_summary(text); }

  /// Records in the private folder that its run is in this directory.
  void settle_in(const std::filesystem::path& directory);

  /// Removes the private folder of a finished run, and then the run directory's reference to it.
  void erase(const std::filesystem::path& directory);

 private:
  Checkpoints(CheckpointFolder folder, const CheckpointWish& wish)
      : folder_(std::move(folder)), wish_(wish), last_(std::chrono::steady_clock::now()) {}

  CheckpointFolder folder_;
  CheckpointWish wish_;
  std::chrono::steady_clock::time_point last_;
  std::uint64_t shown_ = 0;
};

}  // namespace privgrad::core
