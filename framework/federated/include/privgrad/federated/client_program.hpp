// A program for dp_fed_avg whose examples are clients; also draws drop-outs and stragglers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "privgrad/federated/client.hpp"

namespace privgrad::core {

/// The drop-outs and stragglers in a round, which depend only on random numbers.
struct Mishaps {
  std::vector<bool> dropped;  ///< [clients]
  /// [clients]: a number in [0, 1) for each straggler, nothing for others
  std::vector<std::optional<double>> slow;

  /// The number of steps that a client makes: `steps`, or between 1 and `steps` for a straggler.
  std::uint64_t steps_of(std::size_t client, std::uint64_t steps) const {
    if (!slow[client] || steps == 0) return steps;
    const auto made = static_cast<std::uint64_t>(*slow[client] * static_cast<double>(steps)) + 1;
    return std::min(made, steps);
  }
};

/// The mishaps of a round for all clients, whether they take part or not.
/// \param key  the key with which the run began.
Mishaps draw_mishaps(const Federated& wish, const RandomKey& key, std::uint64_t round);

/// A program whose examples are clients. A client's gradient is the negative of the change that its
/// local steps make: received - sent. So the code that clips, adds up and releases per-example
/// gradients works for clients (McMahan et al. 2018, DP-FedAvg), and a step of gradient descent
/// with learning rate 1 yields the mean of the models.
class ClientProgram final : public Program, public ReproducibleRows {
 public:
  /// \param clients, pool, executor  outlive the program.
  ClientProgram(const std::vector<std::unique_ptr<Client>>& clients, std::size_t parameters,
                WorkbenchPool& pool, Executor& executor)
      : clients_(clients), parameters_(parameters), pool_(pool), executor_(executor) {}

  /// \param first_step  the number of the round's first local step, for every client. A client
  ///   keeps no state between rounds: the proof for samples of a fixed size requires that
  ///   contributions depend only on released models, not on earlier draws, because the draws of
  ///   other clients reveal something about the draw of one client.
  /// \param mishaps  the changes of dropped clients are lost, and are summed as zeros.
  void begin_round(std::uint64_t first_step, std::uint64_t local_iterations,
                   const Mishaps& mishaps);

  /// The number of local steps that a client makes in this round.
  std::uint64_t steps_of(std::size_t client) const {
    return mishaps_.steps_of(client, std::min(local_iterations_, clients_[client]->steps_left()));
  }
  std::uint64_t first_step() const { return first_step_; }
  std::span<const float> model() const { return model_; }
  /// Takes the results of clients that have already made the round, so that no client is trained
  /// here. All clients of the batch must be included, except clients that make no steps.
  void know(std::map<std::size_t, ClientRound> rounds) { known_ = std::move(rounds); }

  /// The numbers of clients in this round that were asked to train, that dropped out, and that were
  /// slow.
  std::uint64_t clients() const { return asked_; }
  std::uint64_t dropped() const { return lost_; }
  std::uint64_t stragglers() const { return slow_; }

  std::size_t parameter_count() const override { return parameters_; }
  void load_parameters(std::span<const float> parameters) override;
  /// Trains each client once per round. The only feature of an example is the number of a client.
  void gradient_rows(const Batch& batch, std::span<float> rows) const override;
  Evaluation evaluate(const Batch&) const override { return {}; }

 private:
  const std::vector<std::unique_ptr<Client>>& clients_;
  std::size_t parameters_;
  WorkbenchPool& pool_;
  Executor& executor_;
  std::vector<float> model_;
  std::uint64_t first_step_ = 0, local_iterations_ = 0;
  Mishaps mishaps_;
  std::optional<std::map<std::size_t, ClientRound>> known_;
  mutable std::atomic<std::uint64_t> asked_{0}, lost_{0}, slow_{0};
};

}  // namespace privgrad::core
