#include "federated_record.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/statement/plan_json.hpp"
#include "privgrad/train/checkpoints.hpp"
#include "privgrad/trust/event_json.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// The size of a model in a message: four bytes per value. A number of steps is sent with it.
std::uint64_t bytes_of_model(std::size_t parameters) { return 4 * parameters; }
constexpr std::uint64_t kBytesOfSteps = 8;
/// The size of private estimates: two numbers in double precision.
constexpr std::uint64_t kBytesOfEstimates = 16;

auto all_of(auto& progress) {
  return std::tie(progress.round, progress.rounds_left, progress.steps_left, progress.last,
                  progress.parameters, progress.learning_rate, progress.clip_norm,
                  progress.gradient_noise, progress.lipschitz, progress.smoothness,
                  progress.divergence, progress.convexity, progress.heterogeneity);
}

}  // namespace

void Round::count_bytes(std::size_t parameters, bool estimates_too) {
  const std::uint64_t more = estimates_too ? kBytesOfEstimates : 0;
  bytes_down = clients * (bytes_of_model(parameters) + kBytesOfSteps);
  bytes_up = (clients - dropped) * (bytes_of_model(parameters) + more);
}

void RoundTotals::add(const Round& round) {
  rounds = round.number + 1;
  most_iterations = std::max(most_iterations, round.local_iterations);
  dropped += round.dropped;
  stragglers += round.stragglers;
  bytes_down += round.bytes_down;
  bytes_up += round.bytes_up;
  if (round.refused) refused = refused.value_or(0) + *round.refused;
}

std::string hash_of_sent(const ClientRound& sent) {
  StateWriter estimates;
  if (sent.loss_changes) estimates.array(std::span<const double>(*sent.loss_changes));
  return hash_of_shown(sent.model, estimates.text());
}

ClientTable client_table(const FederatedPlan& federated,
                         std::span<const std::unique_ptr<Client>> clients,
                         bool shows_participation) {
  ClientTable table;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const ClientPlan& client = federated.clients[i];
    ClientFacts& facts = table.clients.emplace_back();
    static_cast<PlannedClient&>(facts) = facts_of(client, federated.at_server);
    facts.client = i;
    if (shows_participation) {
      facts.steps = clients[i]->steps_done();
      facts.estimates = clients[i]->estimates_made();
    }
    if (!federated.at_server) {
      facts.weight = federated.weights[i];
      const Ledger* ledger = clients[i]->ledger();
      facts.charged_epsilon =
          ledger == nullptr ? Nullable<double>() : finite(ledger->spent().value);
    }
  }
  return table;
}

std::optional<std::size_t> client_with_fullest_ledger(
    std::span<const std::unique_ptr<Client>> clients) {
  std::optional<std::size_t> fullest;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const Ledger* ledger = clients[i]->ledger();
    if (ledger == nullptr) continue;
    if (!fullest || ledger->spent().value > clients[*fullest]->ledger()->spent().value) fullest = i;
  }
  return fullest;
}

std::uint64_t AskedRule::next(const FederatedProgress& progress) {
  told_.push_back(progress);
  answers_.push_back(rule_->next(progress));
  return answers_.back();
}

void AskedRule::save(StateWriter& out) const {
  out.begin("local iterations");
  out.array(answers_);
  for (const FederatedProgress& progress : told_) out.put(all_of(progress));
}

void AskedRule::restore(StateReader& in, const std::string& who) {
  in.begin("local iterations");
  for (const std::uint64_t answer : in.array<std::uint64_t>()) {
    FederatedProgress progress;
    in.get(all_of(progress));
    if (rule_ != nullptr && next(progress) == answer) continue;
    throw PluginError(
        who +
        ": gives other numbers of local iterations for the same progress than before the resume");
  }
}

}  // namespace privgrad::core
