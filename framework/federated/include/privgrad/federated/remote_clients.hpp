// The interface through which a server talks to clients that are programs on other machines.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/plan/plan.hpp"

namespace privgrad::core {

/// An order to a client, as bytes.
struct OrderToClient {
  std::uint32_t client = 0;
  std::string order;
};

/// Clients of a federated run that are programs of their own, on other machines: each holds its
/// examples, its noise and its ledger (RemoteClient), and the run's server has none of them. An
/// implementation carries bytes to and fro.
class RemoteClients {
 public:
  virtual ~RemoteClients() = default;

  /// Hands out orders, and waits for the answers, for as long as it likes.
  /// \param orders  each client at most once: those of a round, or, once the run is over, the last
  ///   word to every client, whose answers nobody reads.
  /// \returns for each order the answer; nothing: none came, and the client counts as lost in this
  ///   round. No text is trusted: the caller refuses one that is no answer to the order.
  virtual std::vector<std::optional<std::string>> ask(std::span<const OrderToClient> orders) = 0;

  /// Reports that a text is no answer: the client counts as lost in this round. Or that a client came
  /// early (Separation): it is not asked in this round.
  /// \param why  one line.
  virtual void refused(std::uint32_t client, const std::string& why) = 0;
};

/// The facts that server and clients must agree on before anything is charged: "protocol",
/// "program", "plugins" and "manifest", the latter without its section data, since each has its
/// own.
nlohmann::json common_ground_of(const Manifest& manifest, const std::string& lock);

}  // namespace privgrad::core
