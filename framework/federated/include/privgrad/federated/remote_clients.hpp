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

/// Clients of a federated run that are separate programs, on other machines: each has its own
/// examples, noise and ledger (RemoteClient), and the server has none of these. An implementation
/// transports the messages.
class RemoteClients {
 public:
  virtual ~RemoteClients() = default;

  /// Sends orders, and waits for the answers; the implementation decides how long.
  /// \param orders  at most one per client: the orders of a round or, once the run is finished, the
  ///   farewell to every client, which answers with a receipt or repeats the farewell.
  /// \returns the answer to each order; nothing if no answer came, so that the client counts as
  ///   lost in this round. Answers are not trusted: the caller refuses any text that is not an
  ///   answer to the order.
  virtual std::vector<std::optional<std::string>> ask(std::span<const OrderToClient> orders) = 0;

  /// Reports that a text is not a valid answer, so that the client counts as lost in this round; or
  /// that a client came too early (Separation), so that it is not asked in this round.
  /// \param why  one line.
  virtual void refused(std::uint32_t client, const std::string& why) = 0;
};

/// The facts on which server and clients must agree before anything is charged: "protocol",
/// "program", "plugins" and "manifest", without its section `data` and its `privacy.account`,
/// because each client has its own data, and may have an account for it.
nlohmann::json common_ground_of(const Manifest& manifest);

}  // namespace privgrad::core
