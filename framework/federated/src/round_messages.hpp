// The messages between a server and clients that are separate programs, as bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "privgrad/federated/client.hpp"
#include "privgrad/statement/statement.hpp"

namespace privgrad::core {

/// The version of orders and answers. Increased by every change that the other side would
/// misunderstand.
inline constexpr std::uint64_t kRoundProtocol = 2;

/// A server's order to a client that is a separate program. The model in it is released, but the
/// order also shows that the client takes part, which is as private as participation.
struct RemoteOrder {
  std::string run;     ///< 32 hex digits that identify the run.
  std::string ground;  ///< The hash of the facts on which both sides agree.
  std::uint64_t client = 0, round = 0, steps = 0;
  /// The argument of Client::begin_at(); nothing if the client continues.
  std::optional<std::uint64_t> first_step;
  std::vector<float> model;  ///< The model at which the client begins.

  static auto state(auto& self) {
    return std::tie(self.run, self.ground, self.client, self.round, self.steps, self.first_step,
                    self.model);
  }
  std::string text() const;
  /// \throws ConfigError for a text that is not an order of this version.
  static RemoteOrder of(const std::string& text);
};

/// A server's farewell to a client that is a separate program: this run has no more orders.
struct RemoteFarewell {
  std::string run, ground;
  std::uint64_t client = 0;
  RunStatus status = RunStatus::completed;  ///< How the run has ended.

  std::string text() const;
  /// Whether a text claims to be a farewell.
  static bool begins(const std::string& text);
  /// \throws ConfigError for a text that is not a farewell of this version.
  static RemoteFarewell of(const std::string& text);
};

struct RemoteAnswer {
  std::string run, ground;
  std::uint64_t client = 0, round = 0;
  /// Nothing if its ledger pays for no step.
  std::optional<ClientRound> sent;
  std::uint64_t steps_done = 0, estimates_made = 0;
  bool diverged = false;

  static auto state(auto& self) {
    return std::tie(self.run, self.ground, self.client, self.round, self.steps_done,
                    self.estimates_made, self.diverged, self.sent);
  }
  std::string text() const;
  /// \throws ConfigError for a text that is not an answer of this version.
  static RemoteAnswer of(const std::string& text);
};

}  // namespace privgrad::core
