#pragma once

#include <cstdint>
#include <vector>

#include "privgrad/plan/federated_plan.hpp"

namespace privgrad::core {

/// How many steps clients make.
struct LocalSteps {
  std::vector<std::uint64_t> of_round;  ///< FederatedPlan::local_iterations.
  std::uint64_t in_all = 0;             ///< Of these; 0 if the run chooses them.
  std::uint64_t most = 0;               ///< That a client makes.
};

/// \throws ManifestError for what are not whole numbers above 0.
LocalSteps plan_local_steps(const Manifest& manifest);

}  // namespace privgrad::core
