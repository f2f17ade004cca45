// The common part of central and federated runs: beginning, checkpoints, stopping and resuming.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "privgrad/data/executor.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/account_plan.hpp"
#include "privgrad/train/checkpoints.hpp"
#include "privgrad/train/run.hpp"
#include "privgrad/train/run_output.hpp"
#include "privgrad/train/second_look.hpp"
#include "privgrad/trust/run_keys.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The common part of central and federated runs, which begins them, makes checkpoints, stops them
/// and resumes them (docs/resume.md).
class ResumableRun {
 public:
  ResumableRun(const ResumableRun&) = delete;
  ResumableRun& operator=(const ResumableRun&) = delete;
  virtual ~ResumableRun() = default;

 protected:
  /// \param plan, options  outlive this.
  ResumableRun(const Plan& plan, const RunOptions& options);

  // ---- implemented by each kind of run

  /// Makes all parts that train, once data and keys are available.
  virtual void make_parts() = 0;
  /// Opens ledgers, and files that RunOutput does not open; the last action before the first
  /// checkpoint.
  virtual void open_records() = 0;
  /// Saves the state on which the rest of the run depends, in addition to the state that save()
  /// handles.
  virtual void save_parts(StateWriter& out) = 0;
  /// Replaces make_parts() in a restored run: reads the state that save_parts() wrote.
  virtual void restore_parts(StateReader& in) = 0;
  /// Replaces open_records() in a restored run.
  virtual void reopen_records(bool may_repeat) = 0;
  /// In a restored run: the number of steps that were paid for but not made.
  virtual std::uint64_t receipts_to_take_up() const = 0;
  /// Whether this kind's own files contain lines that a resumed run has yet to repeat.
  virtual bool records_are_behind() const = 0;
  /// The ledger that pays for statistics, once records are open; null without statistics or noise.
  virtual Ledger* ledger_of_statistics() { return nullptr; }
  /// Called once the transforms have learnt from released statistics and were applied.
  virtual void statistics_are_released() {}
  /// Makes the steps after the checkpoint, or from the beginning; stops when ends_here() is true.
  virtual void train() = 0;
  /// Writes the output of a finished run.
  virtual void close() = 0;

  // ---- beginning and resuming

  void begin();
  /// \throws PrivacyError if the run cannot continue as it would have without the interruption.
  void take_up();
  /// The values that the transforms have learnt from released statistics, as KeptStatistics reads
  /// them; "" if there are none yet.
  std::string learnt_text() const;
  /// Trains and reports: everything after the beginning and before the removal of private state.
  void train_and_report();
  /// Removes the private state if the run is finished.
  void erase_checkpoints();

  // ---- during the run

  enum class Stop : std::uint64_t { none = 0, orderly };
  /// Makes a checkpoint after the last completed step.
  /// \param stop  whether the process ends here, so that it does nothing after the checkpoint.
  void save(Stop stop);
  /// Must be called before each step: returns whether the user has stopped the run, or wanted it to
  /// finish here. Sets RunResult::can_be_resumed; if true, the run must do nothing more.
  bool ends_here();

  /// Must be called before an output is measured or published. Records the output's hash on the
  /// disk and in last_shown_.
  /// \throws PrivacyError if the output was published before and differs now.
  void show(const std::string& what, std::span<const float> parameters, std::string_view more);

  /// Whether the training rows are in the form that the steps use: all statistics were released,
  /// and the transforms have learnt and were applied.
  bool is_transformed() const noexcept { return is_transformed_; }

  /// The facts for the first lines of ledgers.
  nlohmann::json facts_for_ledger() const;

  const Plan& plan_;
  const Manifest& manifest_;
  const RunOptions& options_;
  SecondLook second_look_;  // starts before a row is read
  RunOutput output_;
  std::optional<Reservation> reservation_;
  std::unique_ptr<Executor> executor_;
  RunData data_;
  std::optional<RunKeys> keys_;
  std::optional<Checkpoints> checkpoints_;
  std::string last_shown_;                    // the hash of the output published for the last step
  std::optional<std::uint64_t> measured_at_;  // the step, or round, of the last measurement
  RunResult result_;

 private:
  bool wants_checkpoints(const DataCommitment& data);
  void start_keys(bool leaves_checkpoints);
  void bind(const DataCommitment& data);
  void know_rows_made();
  /// Everything that decides the gradients of steps, except parameters and batches: what the run is
  /// bound to, the transformed rows, and class weights that follow from released counts.
  std::string bound_with_rows() const;
  std::string bound_for_account() const;
  void begin_checkpoints();
  void first_checkpoint();
  DataCommitment read_data_again(std::string committed);
  void reopen(bool was_orderly);
  bool has_caught_up() const;
  bool has_learnt() const;
  void release_statistics();
  void save_statistics(StateWriter& out) const;
  void take_up_statistics(StateReader& in);
  void stop_for_later();
  double seconds() const;

  bool is_transformed_ = false;            // true from the start if the plan has no statistics
  std::string data_commitment_of_ledger_;  // "" if there is none
  std::string test_rows_;                  // the hash of the test rows
  std::string rows_made_;                  // transformed_hash(), once known
  std::string bound_to_;                   // Checkpoints::bound_to()
  std::optional<std::chrono::steady_clock::time_point> began_;
  double earlier_seconds_ = 0.0;
};

}  // namespace privgrad::core
