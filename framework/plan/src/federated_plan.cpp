#include "privgrad/plan/federated_plan.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "dp_fed_avg_plan.hpp"
#include "privgrad/plan/fed_avg_plan.hpp"
#include "privgrad/plan/local_steps.hpp"
#include "privgrad/plan/shards.hpp"
#include "privgrad/trust/event_json.hpp"
#include "unaccounted.hpp"

namespace privgrad::core {
namespace {

/// The unaccounted uses of private rows that only federated runs have.
/// \param has_estimates  whether the clients' losses are estimated.
std::vector<Unaccounted> unaccounted(const Manifest& manifest, const Shards& shards,
                                     bool participation_is_secret, bool has_estimates) {
  const Federated& wish = *manifest.federated;
  std::vector<Unaccounted> list;
  const std::string& position = wish.partition.position;
  // If one example is removed, later examples move to other shards. With clients as units,
  // neighbours differ in only one shard.
  if (!wish.shards_are_given &&
      (shards.looks_at_examples || (manifest.adjacency == Adjacency::add_or_remove_one &&
                                    wish.aggregation == Aggregation::fed_avg))) {
    list.push_back({.what = "partition of the examples (" + wish.partition.name() + ")",
                    .position = position,
                    .remedy = "say federated.shards: given, if each client has rows of its own"});
  }
  if (!shards.sizes_are_public) {
    list.push_back({.what = "sizes of the clients' shards",
                    .position = position,
                    .remedy = "say in federated.sizes which are public"});
  }
  if (shards.has_histograms) {
    list.push_back({"label histograms of the clients",
                    manifest.position_of("federated.label_histograms"), Reach::shown_values});
  }
  // If participation is secret, release mode publishes neither names nor number of participants.
  if (participation_is_secret && manifest.mode == Mode::research) {
    list.push_back(
        {"who takes part in which round", wish.participation.position, Reach::shown_values});
  }
  if (has_estimates && wish.estimates == EstimateMode::unaccounted) {
    list.push_back({.what = "estimates of the clients' losses",
                    .position = manifest.position_of("federated.estimates"),
                    .remedy = "use federated.estimates: private or from_models"});
  }
  return list;
}

}  // namespace

RandomKey server_key(const RandomKey& run_key) { return run_key.derive("server"); }

Plan make_federated_plan(const Manifest& manifest, const std::shared_ptr<const Setting>& setting) {
  const auto federated = std::make_shared<FederatedPlan>();
  Shards shards = share_out(manifest, *setting);
  federated->clients = std::move(shards.clients);
  federated->weights = shards.weights;
  const LocalSteps steps = plan_local_steps(*manifest.federated, manifest.steps);
  federated->local_iterations = steps.of_round;
  Plan plan = manifest.federated->aggregation == Aggregation::dp_fed_avg
                  ? plan_dp_fed_avg(manifest, setting, shards, steps, *federated)
                  : plan_fed_avg(manifest, setting, shards, steps, *federated);
  plan.federated = federated;
  plan.unaccounted = list_unaccounted(
      plan,
      unaccounted(manifest, shards, federated->participation_is_secret, federated->estimates));
  return plan;
}

std::vector<Unaccounted> foreseen_of_clients(const Manifest& manifest) {
  return unaccounted(manifest, foreseen_shards(manifest), /*participation_is_secret=*/false,
                     start_local_iterations(*manifest.federated).rule != nullptr);
}

PlannedClient facts_of(const ClientPlan& client, bool at_server) {
  PlannedClient facts{.dataset_size = client.plan->dataset_size,
                      .affordable_steps = client.plan->affordable_steps,
                      .labels = client.labels};
  if (!at_server) facts.epsilon = finite(client.plan->epsilon().value);
  return facts;
}

PlannedFederation facts_of(const FederatedPlan& federated, const Federated& wish) {
  PlannedFederation facts{.rounds = wish.rounds,
                          .affordable_steps = federated.affordable_steps,
                          .aggregation = Text(to_text(wish.aggregation)),
                          .partition = wish.partition.name(),
                          .local_iterations = federated.local_iterations};
  for (const ClientPlan& client : federated.clients)
    facts.clients.push_back(facts_of(client, federated.at_server));
  if (!federated.at_server) facts.weights = federated.weights;
  if (federated.is_adaptive()) {
    facts.local_iterations = "adaptive";
    facts.estimates = federated.estimates ? to_text(wish.estimates) : "none";
    facts.estimate_noise = federated.estimate_noise;
  }
  return facts;
}

}  // namespace privgrad::core
