#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/federated.hpp"
#include "privgrad/federated/client.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// What happened in a round, as its line in rounds.jsonl says.
struct Round {
  std::uint64_t number = 0;
  std::uint64_t local_iterations = 0;
  std::uint64_t clients = 0, dropped = 0, stragglers = 0;
  std::uint64_t bytes_down = 0, bytes_up = 0;
  LossEstimates estimates;
  std::string sent;  ///< Of fed_avg with checkpoints: the hashes of what the clients have sent.

  /// A client that is lost has received the model; the server has not received its.
  /// \param estimates_too  whether each that arrives brings private estimates.
  void count_bytes(std::size_t parameters, bool estimates_too);
};

/// What all rounds so far come to.
struct RoundTotals {
  std::uint64_t rounds = 0, most_iterations = 0;
  std::uint64_t dropped = 0, stragglers = 0, bytes_down = 0, bytes_up = 0;

  void add(const Round& round);
  /// What says nothing of who took part.
  RoundTotals without_participation() const {
    return {.rounds = rounds, .most_iterations = most_iterations};
  }
  static auto state(auto& self) {
    return std::tie(self.rounds, self.most_iterations, self.dropped, self.stragglers,
                    self.bytes_down, self.bytes_up);
  }
};

nlohmann::json to_json(const LossEstimates& estimates);

/// What a line and a summary say of who took part, where that may be shown.
nlohmann::json participation_json(const Round& round);
nlohmann::json participation_json(const RoundTotals& totals);

/// The content of clients.json.
/// \param shows_participation  whether it may be said how often each took part.
nlohmann::json clients_json(const FederatedPlan& federated,
                            std::span<const std::unique_ptr<Client>> clients,
                            bool shows_participation);

/// The client whose ledger has the largest total; nothing: none has a ledger.
std::optional<std::size_t> client_with_fullest_ledger(
    std::span<const std::unique_ptr<Client>> clients);

/// Asks a rule for local iterations, which may remember what it was told: a run that goes on tells it
/// all of that again.
class AskedRule {
 public:
  /// \param rule  started; outlives this; null: there is nothing to ask.
  explicit AskedRule(AdaptiveLocalIterations* rule) : rule_(rule) {}

  /// \returns what the rule says.
  std::uint64_t next(const FederatedProgress& progress);

  void save(StateWriter& out) const;
  /// \param who  whom errors name.
  /// \throws PluginError if the rule answers otherwise than it did; IoError
  void restore(StateReader& in, const std::string& who);

 private:
  AdaptiveLocalIterations* rule_;
  std::vector<FederatedProgress> told_;
  std::vector<std::uint64_t> answers_;
};

}  // namespace privgrad::core
