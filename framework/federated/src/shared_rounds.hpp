// The rounds of a federated run that several processes share, with all ledgers at process 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "privgrad/cluster.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/federated/client.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/train/run.hpp"
#include "privgrad/trust/run_keys.hpp"

namespace privgrad::core {

struct ClientTask {
  std::uint32_t client = 0;
  std::uint64_t steps = 0;  ///< Above 0.
};

/// At process 0: the other processes of a federated run. Each client is assigned to one process,
/// which reads its examples, makes its local steps and estimates, and keeps the state for them in
/// all rounds; so the result has the same bits on any number of processes.
///
/// Process 0 has all ledgers. Once a round's charges are on its disk, it orders another process to
/// make a client's round, gives up the receipts for the round, and receives the client's message
/// and state. Process 0 therefore always has the same client states as in a run on one process, and
/// writes the same checkpoints. Threads: calls must not overlap, and must come from the thread that
/// made the cluster.
class SharedRounds {
 public:
  /// Compares the processes, and lets the others make the same plan.
  /// \param cluster  outlives this, as do the other arguments.
  /// \throws ConfigError naming a process that differs.
  SharedRounds(Cluster& cluster, const Plan& plan, const RunOptions& options, const RunData& data,
               Executor& executor);

  struct Round {
    const RunKeys& keys;
    std::span<const float> model;  ///< The model that the clients receive.
    /// The argument of Client::begin_at(); nothing if the clients continue.
    std::optional<std::uint64_t> first_step{};
  };

  /// Lets clients make a round.
  /// \param clients  all clients of the run, by number; clients of other processes are updated.
  /// \param tasks  each client at most once.
  /// \returns for each task the client's message; nothing if its ledger did not pay for the steps.
  /// \throws as Client::train(), and IoError if a process is gone.
  std::vector<std::optional<ClientRound>> train(const std::vector<std::unique_ptr<Client>>& clients,
                                                const Round& round,
                                                std::span<const ClientTask> tasks,
                                                WorkbenchPool& pool);

  /// Must be called after clients were restored, so that the restored states are sent to the
  /// processes that make these clients' rounds.
  void begin_from_kept() { told_.assign(told_.size(), false); }

  /// Ends the other processes, because the run is finished.
  void dismiss();

 private:
  void estimate(const std::vector<std::unique_ptr<Client>>& clients, const Round& round,
                std::span<const ClientTask> tasks, std::vector<std::optional<ClientRound>>& sent,
                WorkbenchPool& pool);

  Cluster& cluster_;
  Executor& executor_;
  std::vector<std::size_t> owners_;  // ranks of the processes, by client
  std::vector<bool> told_;           // whether a client's owner has its current state
};

/// Replaces the run of a federated plan in every process except process 0.
/// \throws as work_for_others()
void make_rounds_for_others(const Manifest& manifest, const RunOptions& options);

}  // namespace privgrad::core
