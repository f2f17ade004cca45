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

/// Why a run of this plan cannot leave checkpoints: "" if it can.
std::string why_no_checkpoints(const Plan& plan, const std::filesystem::path& state);

/// Whether a step that is made again is the same, to the last bit: exact sums by a program that
/// promises its bits (ExactClipping, ReproducibleRows), and no noise at all.
bool steps_are_repeatable(const Plan& plan);

/// The hash of the examples that are trained on, where a transform does not promise the bits that it
/// makes of a row; else "". To be compared, in private, with those of a run that goes on.
std::string transformed_hash(const Plan& plan, const Dataset& train);

/// The hash of who has which examples: private, and to be compared as the one above.
std::string hash_of_shards(const FederatedPlan& federated);

/// What the plan of a run that goes on was drawn with.
/// \throws IoError if the run's private folder is not there, or does not hold it.
RandomKey kept_plan_key(const std::filesystem::path& directory, const std::filesystem::path& state);

/// The schedules that a run which goes on began with, as KeptNumbers has them.
/// \throws IoError as kept_plan_key().
std::string kept_schedules(const std::filesystem::path& directory,
                           const std::filesystem::path& state);

/// The hash of parameters, and of what is shown with them.
std::string hash_of_shown(std::span<const float> parameters, std::string_view more);

/// The checkpoints of one run: when they are made, where they lie, and what was shown.
class Checkpoints {
 public:
  /// Of a run that begins: names its folder in the run's directory, and makes it.
  static Checkpoints begin(const Plan& plan, const RunOptions& options);
  /// Of a run that was cut off.
  /// \throws ConfigError if it is over; IoError if the directory holds no run, or there is nothing to
  ///   go on from.
  static Checkpoints take_up(const Plan& plan, const RunOptions& options);

  /// What the run is bound to, for the keys of its steps: whatever decides what a step releases,
  /// so that a copy of the state which goes on with another input never meets the same noise.
  static std::string bound_to(const Plan& plan, const std::string& lock,
                              const DataCommitment& data);

  /// The checkpoint to go on from, behind a head that was compared with this run's.
  /// \throws PrivacyError naming what differs.
  std::string content(const Plan& plan, const RunOptions& options);

  /// Whether one is to be made behind this step; of a federated run, behind this round.
  bool is_due(std::uint64_t steps_done) const;
  /// \param body  what content() is to return.
  void write(const Plan& plan, const RunOptions& options, std::string_view body);

  /// Says that something is about to be shown, once that is on the disk.
  /// \param hash  of it.
  void bind(const std::string& what, const std::string& hash) {
    folder_.bind(shown_, what, hash);
    ++shown_;
  }
  std::uint64_t shown() const noexcept { return shown_; }
  void set_shown(std::uint64_t shown) noexcept { shown_ = shown; }
  /// Whether something was bound that is still to be made again.
  bool is_behind() const { return shown_ < folder_.bindings(); }

  std::string settle_summary(const std::string& text) { return folder_.settle_summary(text); }

  /// Says that the run is now in this directory, once it goes on there.
  void settle_in(const std::filesystem::path& directory);

  /// The run is over: keys and private state are taken away, and then the run directory's word of
  /// them.
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
