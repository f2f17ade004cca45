// The records of a federated run in its files: rounds, participation and clients.
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
#include "privgrad/record/run_lines.hpp"
#include "privgrad/trust/state_bytes.hpp"

namespace privgrad::core {

/// The facts about a round, for its line of rounds.jsonl.
struct Round : RoundParticipation {
  std::uint64_t number = 0;
  std::uint64_t local_iterations = 0;
  LossEstimates estimates;
  std::string sent;  ///< For fed_avg with checkpoints: the hashes of the clients' messages.

  /// Counts the bytes of messages: a lost client has received the model, but sent no message.
  /// \param estimates_too  whether each message that arrives contains private estimates.
  void count_bytes(std::size_t parameters, bool estimates_too);
};

/// The totals of all rounds so far.
struct RoundTotals : RoundMishaps {
  std::uint64_t rounds = 0, most_iterations = 0;

  void add(const Round& round);
  /// The totals without the members that reveal participation.
  RoundTotals without_participation() const { return {{}, rounds, most_iterations}; }
  static auto state(auto& self) {
    return std::tie(self.rounds, self.most_iterations, self.dropped, self.stragglers,
                    self.bytes_down, self.bytes_up, self.refused);
  }
};

/// The hash of the model and the private estimates that a client of fed_avg sends.
std::string hash_of_sent(const ClientRound& sent);

/// \param shows_participation  whether the table may show how often each client took part.
ClientTable client_table(const FederatedPlan& federated,
                         std::span<const std::unique_ptr<Client>> clients,
                         bool shows_participation);

/// The client whose ledger has the largest total; nothing if no client has a ledger.
std::optional<std::size_t> client_with_fullest_ledger(
    std::span<const std::unique_ptr<Client>> clients);

/// Asks a rule for local iterations. Its answers may depend on earlier questions, so a resumed run
/// repeats all questions.
class AskedRule {
 public:
  /// \param rule  a started rule, which outlives this; null if there is no rule.
  explicit AskedRule(AdaptiveLocalIterations* rule) : rule_(rule) {}

  std::uint64_t next(const FederatedProgress& progress);

  void save(StateWriter& out) const;
  /// \param who  the rule's name in errors.
  /// \throws PluginError if the rule answers differently than before; IoError for an invalid state.
  void restore(StateReader& in, const std::string& who);

 private:
  AdaptiveLocalIterations* rule_;
  std::vector<FederatedProgress> told_;
  std::vector<std::uint64_t> answers_;
};

}  // namespace privgrad::core
