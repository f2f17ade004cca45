#pragma once

#include <memory>
#include <vector>

#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/local_steps.hpp"
#include "privgrad/plan/shards.hpp"

namespace privgrad::core {

/// fed_avg: every client for itself. Makes the clients' plans, and what the run's estimates cost.
/// \param federated  gets them.
/// \returns the plan of the client whose guarantee is the weakest.
Plan plan_fed_avg(const Manifest& manifest, const std::shared_ptr<const Setting>& setting,
                  const Shards& shards, const LocalSteps& steps, FederatedPlan& federated);

/// What private estimates of a client are charged: one a round.
/// \param sampler  of the estimates, started.
/// \param noise    their noise multiplier, > 0.
std::vector<Charge> estimate_charges(const Manifest& manifest, const Sampler& sampler,
                                     double noise);

}  // namespace privgrad::core
