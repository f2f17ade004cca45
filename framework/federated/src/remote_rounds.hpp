// The server's side of the rounds of a federated run whose clients are separate programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/federated/remote_clients.hpp"
#include "privgrad/train/run.hpp"
#include "round_messages.hpp"
#include "shared_rounds.hpp"

namespace privgrad::core {

/// At the server of a federated run whose clients are separate programs: sends them orders for
/// their rounds, and checks their answers. The server's own Client objects have no examples or
/// ledgers; they only record the programs' progress.
class RemoteRounds {
 public:
  /// \param clients, plan  must outlive this.
  /// \throws PrivacyError if clients cannot be separate programs.
  RemoteRounds(RemoteClients& clients, const Plan& plan);

  /// \param model  the model that the clients receive.
  /// \param first_step  the same as Client::begin_at(); nothing if they continue.
  /// \returns for each task the client's message; nothing if the client is lost, or if its ledger
  ///   did not pay.
  std::vector<std::optional<ClientRound>> train(const std::vector<std::unique_ptr<Client>>& clients,
                                                std::uint64_t round, std::span<const float> model,
                                                std::optional<std::uint64_t> first_step,
                                                std::span<const ClientTask> tasks);

  /// Tells all clients that the run is finished, with its status, so that they close their ledgers.
  /// The ledger of a client that does not receive this message stays open.
  /// \param directory  the run's directory, for the clients' receipts.
  void dismiss(RunStatus status, const std::filesystem::path& directory);

  /// The run's id and ground, and the hashes of the program and the plugins, from which a verifier
  /// derives the ground again.
  nlohmann::json facts() const;

 private:
  RemoteAnswer checked(const std::string& text, std::uint64_t round, const ClientTask& task,
                       std::size_t parameters) const;

  RemoteClients& remote_;
  const Plan& plan_;
  std::string run_, ground_;
};

/// Checks that the server of clients that are separate programs names no account: each client names
/// the account of its own examples.
/// \throws PrivacyError if it names one.
void check_account_of_server(const Plan& plan);

/// The hash of common_ground_of() and of a plan's shared facts; orders and answers contain it.
std::string hash_of_ground(const Plan& plan);

}  // namespace privgrad::core
