// One client of a federated run: its trainer, its ledger and its estimates, round by round.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "privgrad/federated/loss_estimates.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/train/trainer.hpp"
#include "privgrad/trust/run_keys.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// A pool of workbenches that clients use in turn. It grows to the number of workbenches in use at
/// the same time.
class WorkbenchPool {
 public:
  /// \param plan, executor  outlive the pool.
  WorkbenchPool(const Plan& plan, Executor& executor) : plan_(plan), executor_(executor) {}

  /// Calls `action` with a workbench that is not in use. Threads: calls may overlap.
  void with(const std::function<void(Workbench&)>& action);

 private:
  const Plan& plan_;
  Executor& executor_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workbench>> free_;
};

/// One client of a federated run: its examples, and its state between rounds. With fed_avg, its
/// models and its private estimates are releases; with dp_fed_avg, the server is trusted with exact
/// models.
///
/// Threads: calls on one client must not overlap; clients with different workbenches may run at
/// once.
class Client {
 public:
  /// \param number  the number of the client, 0-based.
  /// \param data  all training examples; only the client's own are read. All references must
  ///   outlive the client.
  /// \param keys  the keys of the run; see key_of(). Keys change only between rounds.
  /// \param second_look  as TrainerSetting::second_look.
  /// \param leader  as TrainerSetting::leader, for the client's steps and estimates.
  Client(std::size_t number, const FederatedPlan& federated, const Federated& wish,
         const Dataset& data, const RunKeys& keys, Executor& executor,
         SecondLook* second_look = nullptr, ReleaseWitness* leader = nullptr);

  /// The key of a client's sampler and noise. The first client uses the run's key, so that a
  /// federation of one client makes the same draws as a central run; other clients' keys are
  /// derived from it.
  static RandomKey key_of(std::size_t number, const RandomKey& run_key);

  /// \throws IoError; PluginError if the components' charges differ from the plan.
  void open_ledger(const std::filesystem::path& file, const nlohmann::json& facts);
  /// The same as open_ledger(), for a restored client.
  /// \param may_repeat  LedgerReopening::may_repeat.
  /// \throws IoError, PrivacyError as Trainer::reopen_ledger().
  void reopen_ledger(const std::filesystem::path& file, const nlohmann::json& facts,
                     bool may_repeat) {
    trainer_.reopen_ledger(file, facts, may_repeat);
  }
  /// For a restored client: Trainer::receipts_to_take_up().
  std::uint64_t receipts_to_take_up() const noexcept { return trainer_.receipts_to_take_up(); }

  /// Saves the state of a client of fed_avg between rounds. Private.
  void save(StateWriter& out) const;
  /// Restores a client that has made no round or, at process 0, a client whose rounds another
  /// process makes.
  /// \throws IoError; PluginError as open_ledger().
  void restore(StateReader& in);
  /// For a client of dp_fed_avg that has made no round: restores the number of steps that it had
  /// made, its only state between rounds.
  void restore_steps_done(std::uint64_t steps) { steps_done_ = steps; }

  void close_ledger(const std::string& status, const nlohmann::json& files);

  /// The number of steps that the budget still pays for.
  std::uint64_t steps_left() const { return plan_.affordable_steps - steps_done_; }
  std::uint64_t steps_done() const { return steps_done_; }
  std::uint64_t estimates_made() const { return estimates_made_; }
  /// Null without noise.
  const Ledger* ledger() const { return trainer_.ledger(); }
  RunChecks checks() const { return trainer_.checks(); }
  /// Whether a step of the last round produced values that are not finite.
  bool diverged() const { return diverged_; }

  /// Drops the state of earlier rounds, and gives the next step this number instead of
  /// steps_done(); batches and schedules depend on the number. Only for clients without a ledger.
  void begin_at(std::uint64_t step);

  /// Makes one round: pays for the steps and makes them, beginning at the received model; then, if
  /// planned, pays for and makes the estimates.
  /// \param steps  at most steps_left(), > 0.
  /// \returns nothing if the ledger refuses the steps; no example was read then.
  std::optional<ClientRound> train(std::span<const float> received, std::uint64_t steps,
                                   Workbench& bench);

  // The parts of train(), for a round that two processes make together: process 0, which has all
  // ledgers, pays and hands the receipts over to another process, which does the rest.

  /// \returns whether the ledger pays for the steps; the client then has their receipts.
  bool pay_for(std::uint64_t steps);
  /// \pre pay_for(), or take_over(), for as many steps.
  ClientRound make_steps(std::span<const float> received, std::uint64_t steps, Workbench& bench);
  /// Whether an estimate will read examples again; valid after make_steps().
  bool wants_estimate() const;
  /// \returns whether the ledger pays for the estimate; otherwise no estimate is made.
  bool pay_for_estimate();
  /// \pre pay_for_estimate(), or take_over_estimate().
  void estimate(std::span<const float> received, ClientRound& round, Workbench& bench);

  /// The same as Trainer::expect_receipts().
  void expect_receipts();
  void take_over(std::uint64_t steps) { trainer_.take_over(next_step_, steps); }
  void take_over_estimate();
  void hand_over(std::uint64_t steps) { trainer_.hand_over(steps); }
  void hand_over_estimate() { paid_estimates_.clear(); }
  void set_diverged(bool diverged) { diverged_ = diverged; }

  /// For a restored client: pays for a round's steps, and for an estimate that may have been made,
  /// without making either. The noise of both is never used.
  void give_up(std::uint64_t steps);
  /// At the server, for a client that is a separate program: records the progress that the client
  /// reports.
  void has_come_to(std::uint64_t steps, std::uint64_t estimates, bool diverged);

 private:
  static auto progress(auto& self) {
    return std::tie(self.next_step_, self.steps_done_, self.estimates_made_);
  }

  void use_key_of_round();
  bool has_paid_estimates() const;
  void watch_estimates();
  bool draw_estimate_batch();
  void estimate_privately(std::span<const float> received, ClientRound& round, Workbench& bench);
  void estimate_exactly(std::span<const float> received, ClientRound& round, Workbench& bench);
  std::vector<double> losses(std::vector<float> model, Workbench& bench) const;
  Released exact_gradient(std::vector<float> model, Workbench& bench);

  std::size_t number_;
  const RunKeys& keys_;
  const FederatedPlan& federated_;
  const Federated& wish_;
  const ClientPlan& client_;
  const Plan& plan_;
  const Dataset& data_;
  Executor& executor_;
  Trainer trainer_;
  // For estimates on this client's examples: the sampler of the batches, and the divisor of the
  // sums.
  ComponentPtr<Sampler> estimate_sampler_;
  double estimate_divisor_ = 0.0;
  std::unique_ptr<Aggregator> estimate_noise_;
  std::optional<Mechanism> estimate_mechanism_;
  std::unique_ptr<RandomSource> estimate_random_;
  std::vector<std::uint32_t> estimate_batch_;
  std::optional<SamplingWatch> estimate_watch_;
  std::vector<Receipt> paid_estimates_;  // the receipts for the next estimate
  bool is_paid_elsewhere_ = false;
  std::uint64_t next_step_ = 0, steps_done_ = 0, estimates_made_ = 0;
  bool diverged_ = false;
  ReleaseWitness* leader_;
};

}  // namespace privgrad::core
