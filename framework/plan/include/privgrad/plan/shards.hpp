// The partition of the training data among the clients of a federated run.
#pragma once

#include <cstdint>
#include <vector>

#include "privgrad/plan/federated_plan.hpp"

namespace privgrad::core {

struct Shards {
  std::vector<ClientPlan> clients;   ///< With rows and labels; their plans are made later.
  std::vector<std::uint64_t> sizes;  ///< One per client, > 0; the public sizes if sizes are public.
  std::vector<double> weights;       ///< FederatedPlan::weights.
  bool sizes_are_public = false;
  bool looks_at_examples = false;  ///< Whether the partition depends on examples.
  bool has_histograms = false;     ///< Whether labels were counted.
};

/// The facts about shards that are known before any row is read: whether the partition depends on
/// examples, and whether sizes are public.
Shards foreseen_shards(const Manifest& manifest);

/// Reads the training data and divides them among the clients; with recorded facts, only makes
/// clients of the recorded sizes.
/// \throws ManifestError for a partition that leaves a client without examples.
Shards share_out(const Manifest& manifest, const Setting& setting);

}  // namespace privgrad::core
