#pragma once

#include <memory>

#include "local_steps.hpp"
#include "privgrad/pipeline/federated_plan.hpp"
#include "shards.hpp"

namespace privgrad::core {

/// fed_avg: every client for itself. Makes the clients' plans, and what the run's estimates cost.
/// \param federated  gets them.
/// \returns the plan of the client whose guarantee is the weakest.
Plan plan_fed_avg(const Manifest& manifest, const std::shared_ptr<const Setting>& setting,
                  const Shards& shards, const LocalSteps& steps, FederatedPlan& federated);

}  // namespace privgrad::core
