#include "remote_rounds.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/plan/engines.hpp"
#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/public_facts.hpp"
#include "privgrad/record/site_receipt.hpp"
#include "privgrad/train/cluster_talk.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// The hash of the plugins, except for the filter of an account, which each site chooses.
std::string hash_of_plugins(Manifest shared) {
  shared.account.reset();
  Json plugins = Json::object();
  for (const UsedPlugin& used : plugins_of(shared))
    plugins[used.plugin->name] = used.plugin->sha256;
  return sha256_hex(plugins.dump());
}

}  // namespace

Json common_ground_of(const Manifest& manifest) {
  return {{"protocol", kRoundProtocol},
          {"program", common_program().hash},
          {"plugins", hash_of_plugins(manifest)},
          {"manifest", sha256_hex(shared_by_sites(manifest).dump())}};
}

void check_account_of_server(const Plan& plan) {
  const Value* const privacy = plan.manifest->resolved.find("privacy");
  if (privacy == nullptr || privacy->find("account") == nullptr) return;
  throw PrivacyError(
      plan.federated->at_server
          ? "privacy.account: pays for no run of dp_fed_avg whose clients are separate programs"
          : "privacy.account: the clients are charged, not the server; each client names the "
            "account of its own examples in its own manifest");
}

std::string hash_of_ground(const Plan& plan) {
  return hash_of_ground(common_ground_of(*plan.manifest), shared_facts_of(plan));
}

RemoteRounds::RemoteRounds(RemoteClients& clients, const Plan& plan)
    : remote_(clients),
      plan_(plan),
      // A random id makes the run unique even if a seed determines everything else.
      run_(sha256_hex(RandomKey::from_operating_system().public_hex()).substr(0, 32)),
      ground_(hash_of_ground(plan)) {
  if (const std::string why = why_not(Engine::remote_clients, plan); !why.empty())
    throw PrivacyError("clients cannot be separate programs: " + why);
}

Json RemoteRounds::facts() const {
  Json facts = common_ground_of(*plan_.manifest);
  facts.erase("manifest");
  facts.update({{"run", run_}, {"ground", ground_}});
  return facts;
}

std::vector<std::optional<ClientRound>> RemoteRounds::train(
    const std::vector<std::unique_ptr<Client>>& clients, std::uint64_t round,
    std::span<const float> model, std::optional<std::uint64_t> first_step,
    std::span<const ClientTask> tasks) {
  std::vector<OrderToClient> orders;
  for (const ClientTask& task : tasks) {
    const RemoteOrder order{.run = run_,
                            .ground = ground_,
                            .client = task.client,
                            .round = round,
                            .steps = task.steps,
                            .first_step = first_step,
                            .model = {model.begin(), model.end()}};
    orders.push_back({.client = task.client, .order = order.text()});
  }
  std::vector<std::optional<ClientRound>> sent(tasks.size());
  if (orders.empty()) return sent;
  const std::vector<std::optional<std::string>> answers = remote_.ask(orders);
  if (answers.size() != orders.size()) {
    throw ConfigError("the clients gave " + std::to_string(answers.size()) + " answers to " +
                      std::to_string(orders.size()) +
                      " orders; expected one for each order, or None for a missing answer");
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!answers[i]) continue;
    try {
      RemoteAnswer answer = checked(*answers[i], round, tasks[i], model.size());
      Client& client = *clients[tasks[i].client];
      // Clients of dp_fed_avg have no state between rounds.
      client.has_come_to(first_step ? client.steps_done() + tasks[i].steps : answer.steps_done,
                         answer.estimates_made, answer.diverged);
      sent[i] = std::move(answer.sent);
    } catch (const ConfigError& problem) {
      remote_.refused(tasks[i].client, problem.what());
    }
  }
  return sent;
}

void RemoteRounds::dismiss(RunStatus status, const std::filesystem::path& directory) {
  std::vector<OrderToClient> words;
  for (std::uint32_t client = 0; client < plan_.federated->clients.size(); ++client) {
    const RemoteFarewell word{.run = run_, .ground = ground_, .client = client, .status = status};
    words.push_back({.client = client, .order = word.text()});
  }
  const std::vector<std::optional<std::string>> answers = remote_.ask(words);
  for (std::uint32_t client = 0; client < std::min(words.size(), answers.size()); ++client) {
    // Without a key, a client repeats the farewell.
    if (!answers[client] || *answers[client] == words[client].order) continue;
    try {
      const SiteReceipt receipt = SiteReceipt::of(*answers[client]);
      if (const std::string why = receipt.why_not(run_, ground_, client, to_text(status));
          !why.empty())
        throw ConfigError("its receipt " + why);
      make_directories(directory / "receipts");
      write_atomically(directory / receipt_of_client(client), *answers[client]);
    } catch (const ConfigError& problem) {
      remote_.refused(client, problem.what());
    }
  }
}

/// Checks that an answer belongs to the order: only models from such answers are averaged, or
/// clipped and added up.
RemoteAnswer RemoteRounds::checked(const std::string& text, std::uint64_t round,
                                   const ClientTask& task, std::size_t parameters) const {
  RemoteAnswer answer = RemoteAnswer::of(text);
  const auto refuse = [](const std::string& what) { throw ConfigError("its answer " + what); };
  if (answer.run != run_) refuse("belongs to another run");
  if (answer.ground != ground_) refuse("comes from another program, manifest or set of plugins");
  if (answer.client != task.client || answer.round != round) refuse("answers another order");
  const ClientPlan& planned = plan_.federated->clients[task.client];
  if (answer.steps_done > planned.plan->affordable_steps ||
      answer.estimates_made > plan_.manifest->federated->rounds)
    refuse("has more steps or estimates than its budget pays for");
  if (!answer.sent) return answer;
  const ClientRound& made = *answer.sent;
  if (made.model.size() != parameters)
    refuse("has a model of " + std::to_string(made.model.size()) + " parameters, expected " +
           std::to_string(parameters));
  const bool is_finite = all_finite(made.model) && std::isfinite(made.rates) &&
                         std::isfinite(made.noise_variance) && made.rates >= 0.0 &&
                         made.noise_variance >= 0.0;
  if (!is_finite) refuse("has values that are not finite");
  const bool wants_changes = plan_.federated->estimates &&
                             plan_.manifest->federated->estimates == EstimateMode::private_sums;
  if (made.loss_changes) {
    if (!wants_changes) refuse("has estimates that were not requested");
    for (const double change : *made.loss_changes) {
      if (!std::isfinite(change)) refuse("has values that are not finite");
    }
  }
  return answer;
}

}  // namespace privgrad::core
