// The trainer, which makes the private steps on one owner's data, and accounts for each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/train/adaptive_noise.hpp"
#include "privgrad/train/release_witness.hpp"
#include "privgrad/train/run_checks.hpp"
#include "privgrad/train/second_look.hpp"
#include "privgrad/train/workbench.hpp"
#include "privgrad/trust/ledger.hpp"
#include "privgrad/trust/random_key.hpp"
#include "privgrad/trust/sampling_watch.hpp"
#include "privgrad/trust/separation.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

class ProcessGroup;
class SharedSteps;
class StepEngine;
struct StepOrder;
struct StepState;

/// What a trainer needs to know about its run, besides the plan. Everything that is pointed to
/// outlives the trainer.
struct TrainerSetting {
  /// The numbers of the owner's rows in the data set; if absent: all rows.
  std::optional<std::span<const std::uint32_t>> rows{};
  /// For an owner that is itself the privacy unit, such as a client of dp_fed_avg: its number of
  /// rows is as private as the rows. The sampler then draws from the actual rows instead of the
  /// planned number; if there are fewer rows than a batch, each batch contains all of them.
  bool takes_any_rows = false;
  /// The processes that make the steps together, each with a trainer that has a slice of the sums,
  /// the noise and the optimizer; the plan must allow sharing (Engine::processes). Null: this
  /// process is alone.
  ProcessGroup* processes = nullptr;
  /// Checks the public answers of the clipping in a process that sees no rows; may be null.
  SecondLook* second_look = nullptr;
  /// For comparisons of runs: every release passes through it; may be null.
  ReleaseWitness* leader = nullptr;
  std::optional<std::size_t> client{};  ///< ReleaseSeen::client.
  /// For audits, never for a run's outputs: sees every step, on the thread that makes it; may be
  /// empty.
  std::function<void(const StepSeen&)> witness{};
  /// Called with each batch after it is drawn and before its examples are read, on the thread that
  /// makes the step; may be empty. Private.
  std::function<void(std::span<const std::uint32_t>)> listener{};
};

/// Trains on the data of one owner, and is responsible for the privacy cost to that owner: it draws
/// the batches, keeps the ledger and its receipts, and lets an engine make the steps. A central run
/// has one trainer, and a federated run has one per client.
///
/// Threads: calls on one trainer must not overlap; trainers of different workbenches may run at
/// once.
class Trainer {
 public:
  /// \param plan  the owner's plan, for which the trainer makes its own components. The plan and
  ///   the following arguments outlive the trainer.
  /// \param data  contains the owner's rows.
  /// \param key  the owner's key, from which all other keys are derived.
  /// \param executor  makes sums and noise in parallel, with the same result on any number of
  ///   threads.
  /// \throws ConfigError if there is a witness and the clipping scales coordinates, because audits
  ///   assume that a row without a gradient contributes nothing.
  Trainer(const Plan& plan, const Dataset& data, const RandomKey& key, Executor& executor,
          TrainerSetting setting = {});
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  /// Must be called before the first step, unless noise is off.
  /// \param facts  further facts for the ledger's first line.
  /// \throws PluginError if the components' charges differ from the plan; IoError if the file
  ///   exists or cannot be written.
  void open_ledger(const std::filesystem::path& file, const nlohmann::json& facts);

  /// Replaces open_ledger() in a resumed run. Must follow restore(), which determines the written
  /// part of the ledger.
  /// \param may_repeat  LedgerReopening::may_repeat.
  /// \throws IoError, PrivacyError as the constructor of Ledger that reopens a file.
  void reopen_ledger(const std::filesystem::path& file, const nlohmann::json& facts,
                     bool may_repeat);

  /// Replaces open_ledger() in a process without ledgers: another process charges for the steps,
  /// and take_over() transfers the right to make them.
  /// \throws PluginError if the components' charges differ from the plan.
  void expect_receipts();
  /// Takes over the right to make `count` steps, beginning with `step`. The process that holds the
  /// ledger has charged them and given up their receipts.
  /// \throws PrivacyError for steps that are not in the plan, or while earlier steps remain.
  void take_over(std::uint64_t step, std::uint64_t count);
  /// In the process that holds the ledger: gives up the next receipts, which another process takes
  /// over.
  /// \throws PrivacyError if fewer steps were paid for.
  void hand_over(std::uint64_t count);

  /// For a restored trainer: the number of steps that were paid for but not made.
  std::uint64_t receipts_to_take_up() const noexcept { return restored_.in_hand; }

  /// For a run whose keys change with its steps: sets the key for the draws of the next step. An
  /// epoch charged as random allocation keeps the coins of its first step.
  void use_key_of_step(const RandomKey& key);

  /// The place of a checkpoint. Between rounds the optimizer has no state, because begin_round()
  /// restarts it.
  enum class Between { steps = 1, rounds };

  /// Saves everything on which later steps depend, except keys and the workbench. Private.
  /// Processes that share the steps save at the same time; process 0 then has the state that a
  /// single process would have.
  void save(StateWriter& out, Between where) const;
  /// Must be called on a trainer that has made no step.
  /// \throws IoError if the state does not fit the plan or the components.
  void restore(StateReader& in, Between where);

  /// Makes the measurement of adaptive noise if it is due, and chooses the noise of the step; does
  /// nothing if the noise is not adaptive. Must be called before pay_for().
  /// \param bench  has the model loaded.
  /// \param test  the test rows.
  /// \returns false if a measurement is due and the budget does not pay for it.
  bool choose_noise(std::uint64_t step, Workbench& bench, const Dataset& test);

  /// Ensures that the step is paid for, together with some of the following steps. Steps are paid
  /// for in blocks, each with one answer of the accountant and one flush to the disk; a run has at
  /// most 64 blocks, plus one per report between the steps. Steps with adaptive noise are paid for
  /// one by one.
  /// \param at_least  the number of steps that are about to be made.
  /// \returns whether all these steps are paid for. If not, no data has been read.
  bool pay_for(std::uint64_t step, std::uint64_t at_least = 1);

  /// For a federated run: restarts the optimizer from this model.
  void begin_round(std::span<const float> model);

  /// Resets an adaptive clip norm to its first value.
  void forget_clip_norm();

  /// Draws the step's batch, releases its gradient, and updates the parameters. With a ledger,
  /// tests the batch against the law for which it was charged (SamplingWatch), and in some steps
  /// checks contributions of examples (ContributionCheck).
  /// \returns false if the parameters are no longer finite; the last finite parameters are kept.
  /// \throws PluginError if a check proves a plugin faulty; nothing is then released for the step.
  bool take_step(std::uint64_t step, Workbench& bench);

  /// In a process without a ledger: makes this process's part of the step that process 0 orders.
  /// \throws as take_step(); IoError if a process is gone.
  void take_part(const StepOrder& order, Workbench& bench);

  /// Lets all steps stay on the program's device, if the program and the optimizer support that,
  /// and the steps qualify: independent Gaussian noise on exact sums, in one process, with planned
  /// clip norm and noise. Must be called before the first step and after restore(), and not if
  /// releases are shown to a witness. The workbench's parameters are then up to date only after
  /// bring_home().
  /// \param bench  the bench of all later steps; outlives the trainer.
  /// \throws PluginError for an optimizer whose state does not match its own description.
  void let_steps_stay(Workbench& bench);

  /// Fetches the parameters to the workbench if they were updated elsewhere; must be called before
  /// they are read there.
  /// \throws PluginError as ResidentRun::bring_parameters().
  void bring_home(Workbench& bench);
  /// Loads the parameters into the workbench, also while steps stay on the device.
  void load(Workbench& bench, std::vector<float> values);

  /// The clients that were drawn for the last step but took no part, because they came too early or
  /// too often for the rule under which the plan is charged (Separation); each with a one-line
  /// reason. As private as the batch.
  const std::map<std::uint32_t, std::string>& refused() const noexcept { return refused_; }

  /// Standard deviation of the noise in each coordinate of the last step's gradient.
  double gradient_noise() const noexcept;
  /// Null unless the noise is adaptive.
  const AdaptiveNoise* adaptive_noise() const noexcept {
    return adaptive_noise_ ? &*adaptive_noise_ : nullptr;
  }
  /// Null without noise.
  Ledger* ledger() noexcept { return ledger_ ? &*ledger_ : nullptr; }
  const Ledger* ledger() const noexcept { return ledger_ ? &*ledger_ : nullptr; }
  /// The clip norm of the last step or, with adaptive clipping, of the next step.
  double clip_norm() const noexcept;
  RunChecks checks() const;
  /// The share of the last batch that was clipped, as released; adaptive clipping only.
  std::optional<double> clipped_fraction() const noexcept;

 private:
  /// The key of the coins with which each example has drawn its step of an epoch.
  struct EpochCoins {
    std::uint64_t first = 0, last = 0;  // the epoch's steps
    RandomKey key;
  };

  void check_class_weights(const Workbench& bench) const;
  void take_any_rows();
  void draw_batch(std::uint64_t step);
  const RandomSource& coins_of(std::uint64_t step);
  void forget_coins();
  void watch_sampling();
  void leave_out_early(std::uint64_t step);

  const Plan& plan_;
  const Dataset& data_;
  std::optional<std::span<const std::uint32_t>> rows_;  // if absent: all rows
  std::unique_ptr<StepState> state_;
  std::unique_ptr<StepEngine> engine_;
  SharedSteps* shared_ = nullptr;  // the engine, if processes share the steps
  RandomKey device_checks_key_;
  RandomKey sampler_key_;
  std::shared_ptr<const RandomSource> sampler_random_, epoch_random_;
  bool secret_draws_;                // whether use_key_of_step() also changes the sampler's key
  bool draws_epochs_;                // whether some steps are charged as random allocation
  bool takes_all_rows_ = false;      // whether every batch contains all rows
  std::optional<EpochCoins> coins_;  // the coins of the current epoch
  std::optional<SamplingWatch> sampling_watch_;
  std::optional<SeparationWatch> separation_watch_;
  std::map<std::uint32_t, std::string> refused_;
  std::optional<AdaptiveNoise> adaptive_noise_;
  ComponentPtr<Accountant> accountant_;
  std::optional<Ledger> ledger_;
  LedgerReopening restored_;  // the state of a ledger that is still to be reopened
  bool is_paid_elsewhere_ = false;
  std::vector<std::uint32_t> batch_;
  std::function<void(std::span<const std::uint32_t>)> listener_;
};

}  // namespace privgrad::core
