#pragma once

#include <memory>

#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/plan/local_steps.hpp"
#include "privgrad/plan/shards.hpp"

namespace privgrad::core {

/// dp_fed_avg: the server for all. Makes the plans of the clients, who add no noise.
/// \param federated  gets them, and outlives the plan.
/// \returns the plan of the server, whose examples are clients.
Plan plan_dp_fed_avg(const Manifest& manifest, const std::shared_ptr<const Setting>& setting,
                     const Shards& shards, const LocalSteps& steps, FederatedPlan& federated);

}  // namespace privgrad::core
