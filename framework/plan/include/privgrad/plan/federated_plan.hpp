#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "privgrad/federated.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/sampler.hpp"
#include "privgrad/schedule.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// One client of a federated run.
struct ClientPlan {
  /// Its steps and what they cost; clients with as many examples share one.
  std::shared_ptr<const Plan> plan;
  std::vector<std::uint32_t> rows;    ///< Its training examples, ascending; not empty.
  std::vector<std::uint64_t> labels;  ///< How many of them are of each class; empty: not counted.
};

/// The part of a plan that only federated runs have.
///
/// Who is protected from what. With `fed_avg` every client releases its local models and nothing
/// else: an example lies with one client, so what is released about it are the steps (and
/// estimates) of that client, each charged to that client's ledger; everything that the others and
/// the server do follows from releases and from other examples. So the run guarantees to an example
/// what its client's ledger says, and to all of them the largest of these (parallel composition:
/// McSherry 2009, Theorem 4). Participation, drop-outs and weights follow from public and random
/// numbers.
///
/// How many steps a client makes may follow from releases. Steps and estimates are two sequences of
/// mechanisms, each with a length and an order that are fixed in advance, which are asked in an
/// order that is chosen as the run goes, and perhaps not to their ends. What is claimed is the cost
/// of both sequences in full, which holds for every such order (concurrent composition: Vadhan and
/// Zhang 2023 for f-DP, from which the bounds of all accountants follow; Lyu 2022 for Renyi DP).
///
/// With `dp_fed_avg` a client's whole change is one contribution to a noised sum, and the unit is
/// the client; the steps of Plan are then the rounds, and what `manifest` says of sampler, clipping
/// and optimizer is what the server does with clients.
struct FederatedPlan {
  Manifest manifest;        ///< Of dp_fed_avg: what the server does, in the words of a central run.
  Manifest local_manifest;  ///< Likewise: what clients do, without noise.
  std::vector<ClientPlan> clients;
  std::vector<double> weights;  ///< Of the models, public, > 0, with a sum of 1.
  bool at_server = false;       ///< dp_fed_avg: the server adds the noise, and clients are units.
  /// Local steps of each round; empty: chosen as the run goes.
  std::vector<std::uint64_t> local_iterations;
  bool estimates = false;       ///< Whether those who choose them need any, so that they are made.
  double estimate_noise = 0.0;  ///< Their noise multiplier; 0: none is added.
  /// What the sampler of the estimates is told; empty: it decides itself.
  std::vector<double> estimate_batch_size;
  /// Local steps that every client's budget pays for.
  std::uint64_t affordable_steps = 0;
  std::size_t weakest = 0;  ///< The client with the largest epsilon.
  /// Of dp_fed_avg: rounds are charged less because nobody knows who takes part (amplification by
  /// sampling), so neither who does nor how many may be shown.
  bool participation_is_secret = false;

  /// Whether releases choose the local iterations (AdaptiveLocalIterations).
  bool is_adaptive() const { return local_iterations.empty(); }
};

/// Of the server of dp_fed_avg: not the run's own, which is that of the first client, whose batches
/// would then decide who takes part.
RandomKey server_key(const RandomKey& run_key);

/// The sampler of a client's estimates, started.
/// \param size  public, of the client's data.
ComponentPtr<Sampler> start_estimate_sampler(const Manifest& manifest, std::uint64_t size,
                                             const std::vector<double>& batch_size);

/// Who takes part in which round of fed_avg: a sampler of clients, started.
ComponentPtr<Sampler> start_participation(const Manifest& manifest);

/// Who chooses the local iterations of adaptive federated runs, started.
struct LocalIterationsRule {
  ComponentPtr<Schedule> schedule;
  AdaptiveLocalIterations* rule = nullptr;  ///< The schedule's ability; null: it lacks it.
};
LocalIterationsRule start_local_iterations(const Federated& wish);

/// As make_plan(), for a manifest with `federated`. Reads the training data, to share them out.
Plan make_federated_plan(const Manifest& manifest, const std::shared_ptr<const Setting>& setting);

/// What `privgrad plan --json` says under "federated".
nlohmann::json to_json(const FederatedPlan& federated, const Manifest& manifest);

}  // namespace privgrad::core
