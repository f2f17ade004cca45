// Plans fed_avg, where each client pays for its own steps and estimates.
#pragma once

#include <memory>
#include <vector>

#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/local_steps.hpp"
#include "privgrad/plan/shards.hpp"

namespace privgrad::core {

/// Makes the clients' plans for fed_avg, where every client pays for its own steps, and plans the
/// run's estimates.
/// \param federated  receives the clients' plans and the estimates.
/// \returns the plan of the client with the weakest guarantee.
Plan plan_fed_avg(const Manifest& manifest, const std::shared_ptr<const Setting>& setting,
                  const Shards& shards, const LocalSteps& steps, FederatedPlan& federated);

/// The charges for a client's private estimates, one per round.
/// \param sampler  the started sampler of the estimates.
/// \param noise  the estimates' noise multiplier, > 0.
std::vector<Charge> estimate_charges(const Manifest& manifest, const Sampler& sampler,
                                     double noise);

}  // namespace privgrad::core
