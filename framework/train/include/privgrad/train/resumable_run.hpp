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
#include "privgrad/trust/run_keys.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// What central and federated runs have in common: how they begin, leave checkpoints, stop, and go
/// on (docs/resume.md).
class ResumableRun {
 public:
  ResumableRun(const ResumableRun&) = delete;
  ResumableRun& operator=(const ResumableRun&) = delete;
  virtual ~ResumableRun() = default;

 protected:
  /// \param plan, options  outlive this.
  ResumableRun(const Plan& plan, const RunOptions& options);

  // ---- what a kind of run does itself

  /// Makes all that trains, once data and keys are there.
  virtual void make_parts() = 0;
  /// Opens ledgers, and files beside those of RunOutput: the last thing before the first checkpoint.
  virtual void open_records() = 0;
  /// What the rest of the run depends on, beside what save() knows.
  virtual void save_parts(StateWriter& out) = 0;
  /// Instead of make_parts(), from what save_parts() wrote.
  virtual void restore_parts(StateReader& in) = 0;
  /// Instead of open_records(), of a run that was restored.
  virtual void reopen_records(bool may_repeat) = 0;
  /// Of a run that was restored: how many steps were paid for, and not made.
  virtual std::uint64_t receipts_to_take_up() const = 0;
  /// Whether its own files have lines that are still to be made again.
  virtual bool records_are_behind() const = 0;
  /// Of a run whose records are open, what pays for statistics; null: it makes none, or has no noise.
  virtual Ledger* ledger_of_statistics() { return nullptr; }
  /// Steps behind the checkpoint, or behind the beginning; ends where ends_here().
  virtual void train() = 0;
  /// Writes what a run leaves that is over.
  virtual void close() = 0;

  // ---- where it begins, or goes on

  void begin();
  /// \throws PrivacyError where it cannot go on as it would have.
  void take_up();
  /// All between the beginning and the end.
  void train_and_report();
  /// The private state goes, if the run is over.
  void erase_checkpoints();

  // ---- while it goes on

  enum class Stop : std::uint64_t { none = 0, orderly };
  /// Behind the last step that was made.
  /// \param stop  whether the process ends here, so that nothing is made behind it.
  void save(Stop stop);
  /// Before a step: whether somebody has stopped the run. If it can be resumed, the result says so,
  /// and nothing more is to be made.
  bool ends_here();

  /// Before anything is measured, or written where others see it, with the model or without. Says so
  /// on the disk, and keeps the hash in last_shown_.
  /// \throws PrivacyError if it is made again and is not what it was.
  void show(const std::string& what, std::span<const float> parameters, std::string_view more);

  /// For the first lines of ledgers.
  nlohmann::json facts_for_ledger() const;

  const Plan& plan_;
  const Manifest& manifest_;
  const RunOptions& options_;
  RunOutput output_;
  std::optional<Reservation> reservation_;
  std::unique_ptr<Executor> executor_;
  RunData data_;
  std::optional<RunKeys> keys_;
  std::optional<Checkpoints> checkpoints_;
  std::string last_shown_;                    // the hash of what was shown of the last step
  std::optional<std::uint64_t> measured_at_;  // the step, or round, that the last measurement is of
  RunResult result_;

 private:
  bool wants_checkpoints(const DataCommitment& data);
  void start_keys(bool leaves_checkpoints);
  void bind(const DataCommitment& data);
  void know_rows_made();
  std::string bound_with_rows() const { return bound_to_ + "\n" + rows_made_; }
  std::string bound_for_account() const;
  void begin_checkpoints();
  void first_checkpoint();
  DataCommitment read_data_again(std::string committed);
  void reopen(bool was_orderly);
  bool has_caught_up() const;
  void release_statistics();
  void save_statistics(StateWriter& out) const;
  void take_up_statistics(StateReader& in);
  void stop_for_later();
  double seconds() const;

  /// Whether the transforms have learnt and were applied. At once, unless that is paid for.
  bool is_transformed_ = false;
  std::string data_commitment_of_ledger_;  // "": there is none
  std::string test_rows_;                  // their hash
  std::string rows_made_;                  // the hash that transformed_hash() asks for, once known
  std::string bound_to_;                   // Checkpoints::bound_to()
  std::optional<std::chrono::steady_clock::time_point> began_;
  double earlier_seconds_ = 0.0;
};

}  // namespace privgrad::core
