// The plan of a federated run: its clients, their weights, and the guarantee that each example has.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "privgrad/federated.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

struct ClientPlan {
  /// The steps of the client and their cost; clients with the same number of examples share a plan.
  std::shared_ptr<const Plan> plan;
  /// The training examples of the client, ascending; not empty.
  std::vector<std::uint32_t> rows;
  std::vector<std::uint64_t> labels;  ///< Examples per class; empty: not counted.
};

/// The part of a plan that only federated runs have.
///
/// With `fed_avg` every client releases only its local models. An example belongs to one client, so
/// the only releases about this example are the steps (and estimates) of that client, each charged
/// to that client's ledger; everything that the other clients and the server do follows from
/// releases and from other examples. The run therefore guarantees to an example the cost in its
/// client's ledger, and to all examples the largest of these costs (parallel composition: McSherry
/// 2009, Theorem 4). Participation, drop-outs and weights depend only on public and random numbers.
///
/// The number of steps of a client may depend on releases. Steps and estimates are two sequences of
/// mechanisms, each with a length and an order that are fixed in advance. The run chooses
/// adaptively how to interleave them, and may stop before their ends. The claimed cost is the cost
/// of both full sequences, which is valid for every such choice (concurrent composition: Vadhan and
/// Zhang 2023 for f-DP, from which the bounds of all accountants follow; Lyu 2022 for Renyi DP).
///
/// With `dp_fed_avg` a client's whole update is one contribution to a noised sum, and the unit is
/// the client; the steps of Plan are then the rounds, and the server applies the sampler, clipping
/// and optimizer of `manifest` to clients.
struct FederatedPlan {
  Manifest manifest;        ///< For dp_fed_avg: the server's part, as a central run.
  Manifest local_manifest;  ///< For dp_fed_avg: the clients' part, without noise.
  std::vector<ClientPlan> clients;
  std::vector<double> weights;  ///< One per client's model, public, > 0, with a sum of 1.
  bool at_server = false;       ///< dp_fed_avg: the server adds the noise, and clients are units.
  /// Local steps, one number per round; empty: chosen during the run.
  std::vector<std::uint64_t> local_iterations;
  bool estimates = false;       ///< Whether the choice of local steps needs estimates.
  double estimate_noise = 0.0;  ///< The noise multiplier of the estimates; 0: no noise is added.
  /// The batch sizes given to the sampler of the estimates; empty: the sampler decides.
  std::vector<double> estimate_batch_size;
  /// Local steps that every client's budget can pay for.
  std::uint64_t affordable_steps = 0;
  /// Local steps that the budget of at least one client of fed_avg can pay for.
  std::uint64_t most_affordable_steps = 0;
  std::size_t weakest = 0;  ///< The client with the largest epsilon.
  /// For dp_fed_avg: whether the names and the number of the participants must not be shown,
  /// because rounds are charged less for secret participants (amplification by sampling), or
  /// because participation reveals which clients exist.
  bool participation_is_secret = false;

  /// Whether releases choose the local iterations (AdaptiveLocalIterations).
  bool is_adaptive() const { return local_iterations.empty(); }

  /// The local steps that an adaptive choice of local iterations distributes among the rounds.
  std::uint64_t paced_steps(const Federated& wish) const {
    return wish.paced_by_largest ? most_affordable_steps : affordable_steps;
  }
};

/// The key of the server of dp_fed_avg. It differs from the run's key, because the run's key is
/// also the first client's key: with one key, the same random numbers would draw this client's
/// batches and the participants.
RandomKey server_key(const RandomKey& run_key);

/// The started sampler of a client's estimates.
/// \param size  the public number of the client's examples.
ComponentPtr<Sampler> start_estimate_sampler(const Manifest& manifest, std::uint64_t size,
                                             const std::vector<double>& batch_size);

/// The started sampler that draws which clients take part in each round of fed_avg.
ComponentPtr<Sampler> start_participation(const Federated& wish);

/// The schedule of the local iterations; started if it chooses them during the run.
struct LocalIterationsRule {
  ComponentPtr<Schedule> schedule;
  /// The schedule's ability; null if the schedule lacks it.
  AdaptiveLocalIterations* rule = nullptr;
};
LocalIterationsRule start_local_iterations(const Federated& wish);

/// Like make_plan(), for a manifest with `federated`. Reads the training data to partition them,
/// unless the setting has recorded facts.
Plan make_federated_plan(const Manifest& manifest, const std::shared_ptr<const Setting>& setting);

/// \param at_server  as in FederatedPlan.
PlannedClient facts_of(const ClientPlan& client, bool at_server);
PlannedFederation facts_of(const FederatedPlan& federated, const Federated& wish);

}  // namespace privgrad::core
