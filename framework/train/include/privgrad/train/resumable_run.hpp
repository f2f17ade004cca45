// The loop of every run, with its beginning, checkpoints, end and resumption.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/data/executor.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/account_plan.hpp"
#include "privgrad/train/checkpoints.hpp"
#include "privgrad/train/run.hpp"
#include "privgrad/train/run_feature.hpp"
#include "privgrad/train/run_output.hpp"
#include "privgrad/train/second_look.hpp"
#include "privgrad/train/workbench.hpp"
#include "privgrad/trust/run_keys.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The loop of every run: begins or resumes the run, makes its steps, measures the model, and makes
/// checkpoints (docs/resume.md). Derived classes make the steps, for one owner of data or for the
/// clients of a federation; the steps of a federation are its rounds. Between the steps, the loop
/// calls the features of the run (RunFeature).
class ResumableRun : RunModel {
 public:
  ResumableRun(const ResumableRun&) = delete;
  ResumableRun& operator=(const ResumableRun&) = delete;
  ~ResumableRun() override = default;

  /// Does the same as run() in any_run.hpp.
  RunResult run();

 protected:
  /// \param plan, options  outlive this.
  ResumableRun(const Plan& plan, const RunOptions& options);

  // ---- implemented by each kind of run

  /// Makes the workbench and the trainers or clients. Data and keys are available.
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
  /// Whether files that reopen_records() opened contain lines that the run has yet to repeat.
  virtual bool records_are_behind() const = 0;
  /// The ledger that pays for statistics, once records are open; null without statistics or noise.
  virtual Ledger* ledger_of_statistics() { return nullptr; }
  /// Called once the transforms have learnt from released statistics and were applied.
  virtual void statistics_are_released() {}
  /// \returns the features of the run, in the order in which the loop calls them.
  virtual std::vector<std::unique_ptr<RunFeature>> make_features();
  /// The number of steps or rounds so far.
  virtual std::uint64_t made() const = 0;
  virtual std::uint64_t planned() const = 0;
  /// Pays for the next step and makes it. Updates RunResult::steps and ::epsilon.
  /// \returns false if the step was not made, or if it made the model diverge. RunResult::status is
  ///   then set, unless the run has completed.
  virtual bool make_step() = 0;
  /// The status of the run after its last step, before the model is measured.
  virtual RunStatus status_of_steps() const { return result_.status; }
  /// The workbench that holds the model, fetched from a device if necessary.
  virtual Workbench& bench() = 0;
  virtual void put_model(std::vector<float> parameters) = 0;
  /// The ledger with the largest total; null without noise, or if other programs have the ledgers.
  virtual const Ledger* ledger() const = 0;
  /// The epsilon in the progress display.
  virtual double shown_epsilon() const { return result_.epsilon.value; }
  /// The members of a line of metrics that only this kind of run has.
  virtual MetricsLine metrics_facts() = 0;
  /// The members of the summary that only this kind of run has. Sets RunResult::paid, ::epsilon and
  /// whatever else the statement needs.
  virtual Summary summary_facts() = 0;
  /// \param files  the hashes for the ledgers' last lines.
  virtual void close_ledgers(const nlohmann::json& files) = 0;
  /// All paid charges as one event, for the account; nothing if it is unknown, or if each client
  /// has a ledger.
  virtual std::optional<Event> charged() { return std::nullopt; }
  /// Called if the run failed after its reservation was made. By default the reservation stays, and
  /// counts as spent.
  virtual void settle_after_failure() noexcept {}
  /// Lets other processes and programs end, once the run is finished.
  virtual void dismiss() = 0;

  // ---- beginning and resuming

  /// The values that the transforms have learnt from released statistics, as KeptStatistics reads
  /// them; "" if there are none yet.
  std::string learnt_text() const;

  // ---- during the run

  const std::vector<float>& parameters() override { return bench().parameters; }
  /// The witness of all releases; null if there is no witness or no noise.
  ReleaseWitness* witness() const { return manifest_.noise_off ? nullptr : options_.witness; }
  /// The epsilon that ledger() shows as spent; without a ledger, the plan's epsilon.
  PrivacyAnswer spent() const;

  /// Must be called before an output is measured or published. In a run with checkpoints, records
  /// the output's hash on the disk and in last_shown_.
  /// \throws PrivacyError if the output was published before and differs now.
  void show(const std::string& what, std::span<const float> parameters, std::string_view more);

  /// Whether the training rows are in the form that the steps use: all statistics were released,
  /// and the transforms have learnt and were applied.
  bool is_transformed() const noexcept { return is_transformed_; }

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
  RunResult result_;

 private:
  enum class Stop : std::uint64_t { none = 0, orderly };

  void begin();
  void take_up();
  void train_and_report();
  void train();
  bool ends_here();
  bool releases_end_it();
  bool make_next_step();
  void report_progress();
  void close();
  void save(Stop stop);
  void load(std::vector<float> parameters) override;
  Metrics measure() override;
  void report_once() override;

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

  std::vector<std::unique_ptr<RunFeature>> features_;
  std::string last_shown_;                    // the hash of the output published for the last step
  std::optional<std::uint64_t> measured_at_;  // the step, or round, of the last measurement
  bool is_transformed_ = false;               // true from the start if the plan has no statistics
  std::string data_commitment_of_ledger_;     // "" if there is none
  std::string test_rows_;                     // the hash of the test rows
  std::string rows_made_;                     // transformed_hash(), once known
  std::string bound_to_;                      // Checkpoints::bound_to()
  std::optional<std::chrono::steady_clock::time_point> began_;
  double earlier_seconds_ = 0.0;
};

}  // namespace privgrad::core
