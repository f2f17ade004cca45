// The number of local steps that clients of a federated run make, in each round and in total.
#pragma once

#include <cstdint>
#include <vector>

#include "privgrad/plan/federated_plan.hpp"

namespace privgrad::core {

struct LocalSteps {
  std::vector<std::uint64_t> of_round;  ///< FederatedPlan::local_iterations.
  /// The sum of of_round; 0 if steps are chosen during the run.
  std::uint64_t in_all = 0;
  std::uint64_t most = 0;  ///< The most steps that any client makes.
};

/// \param most  the manifest's steps.
/// \throws ManifestError for a shape, and for numbers that are not whole or not in [1, kMostSteps].
LocalSteps plan_local_steps(const Federated& wish, std::uint64_t most);

}  // namespace privgrad::core
