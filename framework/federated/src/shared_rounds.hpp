// The rounds of a federated run that several processes share, with all ledgers at process 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/cluster.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/federated/client.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/train/run.hpp"
#include "privgrad/trust/run_keys.hpp"

namespace privgrad::core {

/// A client's task in a round.
struct ClientTask {
  std::uint32_t client = 0;
  std::uint64_t steps = 0;  ///< Above 0.
};

/// At process 0: the other processes of a federated run. Each client's examples are looked at by
/// one process, the same in all rounds, which makes its local steps and its estimates and keeps its
/// state for them; so the result has the same bits on any number of processes.
///
/// Process 0 holds all ledgers. It tells another process to make a client's round once that round's
/// charges are on its disk, gives up the receipts for it, and gets back the client's message and
/// all that is kept about it, so that its own clients are always those of a run on one process:
/// checkpoints are, too.
/// Threads: calls never overlap, and come from the thread that made the cluster.
class SharedRounds {
 public:
  /// Compares the processes, and lets the others make the same plan.
  /// \param cluster  outlives this, as do the others.
  /// \throws ConfigError naming a process that differs.
  SharedRounds(Cluster& cluster, const Plan& plan, const RunOptions& options, const RunData& data,
               Executor& executor);

  struct Round {
    const RunKeys& keys;
    std::span<const float> model;               ///< The one that the clients receive.
    std::optional<std::uint64_t> first_step{};  ///< As Client::begin_at(); nothing: they go on.
  };

  /// Lets clients make a round.
  /// \param clients  all of the run, by number; those of other processes are brought up to date.
  /// \param tasks  each client at most once.
  /// \returns for each task the client's message; nothing where its ledger did not pay for the
  ///   steps.
  /// \throws as Client::train(), and IoError for a process that is gone.
  std::vector<std::optional<ClientRound>> train(const std::vector<std::unique_ptr<Client>>& clients,
                                                const Round& round,
                                                std::span<const ClientTask> tasks,
                                                WorkbenchPool& pool);

  /// To be called once clients were restored: the processes that make their rounds must then be
  /// sent all that is kept about them.
  void begin_from_kept() { told_.assign(told_.size(), false); }

  /// Ends the others, since the run is over.
  void dismiss();

 private:
  void estimate(const std::vector<std::unique_ptr<Client>>& clients, const Round& round,
                std::span<const ClientTask> tasks, std::vector<std::optional<ClientRound>>& sent,
                WorkbenchPool& pool);

  Cluster& cluster_;
  Executor& executor_;
  std::vector<std::size_t> owners_;  // ranks, by client
  std::vector<bool> told_;           // whether a client's owner has its kept state
};

/// The part of every process but process 0 in a federated run.
/// \throws as work_for_others()
void make_rounds_for_others(const Manifest& manifest, const RunOptions& options);

}  // namespace privgrad::core
