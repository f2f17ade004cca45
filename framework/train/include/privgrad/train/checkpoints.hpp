// The checkpoints of a run: when they are made, where they are kept, and how a run is resumed.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
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

/// The reason why a run of this plan cannot leave checkpoints; "": it can.
std::string why_no_checkpoints(const std::filesystem::path& state);

/// Whether a step that is made again is the same, to the last bit: with exact sums by a program
/// that promises its bits (ExactClipping, ReproducibleRows), or without noise.
bool steps_are_repeatable(const Plan& plan);

/// The hash of the examples that are trained on, where a transform does not promise the bits of its
/// rows; else "". It is private, and compared with that of a resumed run.
std::string transformed_hash(const Plan& plan, const Dataset& train);

/// The hash of the assignment of examples to clients: private, and compared likewise.
std::string hash_of_shards(const FederatedPlan& federated);

/// The key that the plan of a resumed run was drawn with.
/// \throws IoError if the run's private folder is not there, or does not hold it.
RandomKey kept_plan_key(const std::filesystem::path& directory, const std::filesystem::path& state);

/// The schedules that a resumed run began with, as KeptNumbers has them.
/// \throws IoError as kept_plan_key().
std::string kept_schedules(const std::filesystem::path& directory,
                           const std::filesystem::path& state);

/// The hash of parameters, and of the text that is shown with them.
std::string hash_of_shown(std::span<const float> parameters, std::string_view more);

/// Room for a run that begins: its directory, where an earlier one may have been cut off before it was
/// charged for anything and had a checkpoint; that run's files are taken away, and its private folder.
/// Whatever else a directory holds is left alone; it is refused for a run then
/// (make_run_directory()). Of several runs that begin in one directory, one at a time is in here, until
/// its first file is there.
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

/// The checkpoints of one run: when they are made, where they lie, and how much was shown.
class Checkpoints {
 public:
  /// For a run that begins: names its folder in the run's directory, and makes it.
  static Checkpoints begin(const Plan& plan, const RunOptions& options);
  /// For a run that was cut off.
  /// \throws ConfigError if it is over; IoError if the directory holds no run, or there is nothing
  ///   to resume from.
  static Checkpoints take_up(const Plan& plan, const RunOptions& options);

  /// A text for the keys of the run's steps, with everything that decides the release of a step, so
  /// that a copy of the state which goes on with another input never meets the same noise.
  static std::string bound_to(const Plan& plan, const std::string& lock,
                              const DataCommitment& data);

  /// The content of the checkpoint to resume from, after comparing its head with this run's.
  /// \throws PrivacyError naming the part that differs; IoError if there is no checkpoint.
  std::string content(const Plan& plan, const RunOptions& options);

  /// Whether one is to be made after this step or, in a federated run, after this round.
  bool is_due(std::uint64_t steps_done) const;
  /// \param body  the text that content() is to return.
  void write(const Plan& plan, const RunOptions& options, std::string_view body);

  /// Writes to the disk that something is about to be shown, and what; returns once it is there.
  /// \param hash  of the shown content.
  void bind(const std::string& what, const std::string& hash) {
    folder_.bind(shown_, what, hash);
    ++shown_;
  }
  std::uint64_t shown() const noexcept { return shown_; }
  void set_shown(std::uint64_t shown) noexcept { shown_ = shown; }
  /// Whether a resumed run has yet to repeat something that was bound.
  bool is_behind() const { return shown_ < folder_.bindings(); }

  std::string settle_summary(const std::string& text) { return folder_.settle_summary(text); }

  /// Notes that the run is now in this directory, once it is resumed there.
  void settle_in(const std::filesystem::path& directory);

  /// Removes keys and private state of a run that is over, and then the run directory's reference
  /// to them.
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
