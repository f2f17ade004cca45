// Planning of dp_fed_avg, where the server adds the noise and clients are the privacy units.
#pragma once

#include <memory>

#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/local_steps.hpp"
#include "privgrad/plan/shards.hpp"

namespace privgrad::core {

/// Plans dp_fed_avg: the steps of the server, and the steps of the clients, which add no noise.
/// \param federated  receives the clients' plans, and outlives the plan.
/// \returns the plan of the server, whose examples are clients.
Plan plan_dp_fed_avg(const Manifest& manifest, const std::shared_ptr<const Setting>& setting,
                     const Shards& shards, const LocalSteps& steps, FederatedPlan& federated);

}  // namespace privgrad::core
