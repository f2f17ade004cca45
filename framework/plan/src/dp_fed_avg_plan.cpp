#include "dp_fed_avg_plan.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "owner_plan.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plan/components.hpp"

namespace privgrad::core {
namespace {

void refuse_adaptive(const Federated& wish, const FederatedPlan& federated) {
  if (!federated.is_adaptive()) return;
  wish.local_iterations.with_position([&] {
    throw ConfigError(wish.local_iterations.name() +
                      " follows what single clients release, and with dp_fed_avg they release "
                      "nothing; give a number or a list");
  });
}

/// Refuses a plan that would pay for rounds in which no client has steps left.
void refuse_rounds_without_steps(const Manifest& manifest, const LocalSteps& steps) {
  if (steps.most < manifest.steps || steps.in_all == manifest.steps) return;
  throw error_at(manifest, "steps",
                 "is " + std::to_string(manifest.steps) +
                     ", but the rounds of dp_fed_avg, each of which is charged, have " +
                     std::to_string(steps.in_all) +
                     " local steps; give at least so many, or fewer rounds");
}

/// The server's part, written as the manifest of a central run.
Manifest server_manifest(Manifest server) {
  const Federated& wish = *server.federated;
  server.sampler = wish.participation;
  server.clipping = wish.client_clipping;
  server.optimizer = wish.server_optimizer;
  server.batch_size = {};
  return server;
}

Manifest client_manifest(Manifest local) {
  // the manifest's aggregator is the server's
  local.aggregator = local.federated->client_aggregator;
  local.noise_off = true;
  local.noise_multiplier = {};
  local.noise_std = {};
  return local;
}

void refuse_differences(const ComponentUse& aggregator) {
  const auto made = aggregator.make<Aggregator>();
  if (dynamic_cast<const UsesGradientDifferences*>(made.get()) == nullptr) return;
  aggregator.with_position([&] {
    throw ConfigError(aggregator.name() +
                      " takes differences of the gradients of examples, but the server of "
                      "dp_fed_avg adds up clients' changes; use gaussian or tree");
  });
}

std::optional<Separation> separation_of(const Federated& wish) {
  if (!wish.min_separation) return std::nullopt;
  return Separation{wish.max_participations.value_or(wish.rounds), *wish.min_separation};
}

/// Whether participation reveals which clients exist. Their existence is private if a neighbouring
/// data set may lack a client, because that client's rounds are then missing.
bool shows_who_is_there(const Plan& plan) {
  return plan.public_order() != nullptr && plan.public_order()->separation &&
         plan.manifest->adjacency == Adjacency::add_or_remove_one;
}

bool is_amplified(const Plan& plan) {
  return plan.public_order() == nullptr &&
         std::ranges::any_of(plan.charges,
                             [](const Charge& charge) { return !(charge.cost == charge.release); });
}

}  // namespace

Plan plan_dp_fed_avg(const Manifest& manifest, const std::shared_ptr<const Setting>& setting,
                     const Shards& shards, const LocalSteps& steps, FederatedPlan& federated) {
  const Federated& wish = *manifest.federated;
  refuse_adaptive(wish, federated);
  refuse_rounds_without_steps(manifest, steps);
  federated.at_server = true;
  federated.manifest = server_manifest(manifest);
  Plan plan = plan_owner(federated.manifest, setting,
                         {.dataset_size = wish.clients,
                          .steps = wish.rounds,
                          .clip_norm = wish.client_clip_norm,
                          .learning_rate = wish.server_learning_rate,
                          .key = server_key(*setting->plan_key),
                          .separation = separation_of(wish)});
  refuse_differences(manifest.aggregator);
  federated.participation_is_secret = is_amplified(plan) || shows_who_is_there(plan);
  plan.unit = unit_of(manifest.federated);

  federated.local_manifest = client_manifest(manifest);
  std::map<std::uint64_t, std::shared_ptr<const Plan>> by_size;
  for (std::size_t i = 0; i < shards.sizes.size(); ++i) {
    std::shared_ptr<const Plan>& of_size = by_size[shards.sizes[i]];
    if (of_size == nullptr) {
      of_size = std::make_shared<const Plan>(
          plan_owner(federated.local_manifest, setting,
                     {.dataset_size = shards.sizes[i], .steps = steps.most}));
    }
    federated.clients[i].plan = of_size;
  }
  federated.affordable_steps = steps.most;
  return plan;
}

}  // namespace privgrad::core
