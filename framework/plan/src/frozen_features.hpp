// Replaces features by the outputs of the frozen layers, which a run computes once for all steps.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/setting.hpp"

namespace privgrad::core {

/// The programs that compute the frozen layers' values from which the trained layers continue.
struct FrozenFront {
  struct Value {
    /// The layers that compute the value; no nodes if the value is the features.
    Network network;
    std::unique_ptr<Program> program;  ///< Null if the value is the features.
    std::size_t size = 0;              ///< Numbers per example.
  };

  ComponentPtr<Backend> backend;  ///< The programs' backend, which outlives them.
  std::vector<Value> values;
};

/// \throws ManifestError if the backend's programs return no outputs (Outputs).
FrozenFront compile_frozen_layers(const Manifest& manifest, const Setting& setting,
                                  Executor& executor);

/// Replaces the features of all examples by the frozen layers' outputs for them; does nothing if no
/// layer is frozen.
///
/// Privacy: an example's outputs are a function only of that example and the weights, bit for bit
/// (Outputs promises this, and the conformance suite tests it), as for a transform by row. Data
/// sets that differ in one example therefore still differ in one example, and the proofs about the
/// later layers remain valid. An example that overflows, or was not finite before, becomes NaN; its
/// gradient then counts as zero.
/// \param cache  provides and stores the outputs; null: no cache. Cached outputs have the same
///   bits: everything that determines them is compared by its hash.
void apply_frozen_layers(const Manifest& manifest, const Setting& setting, RunData& data,
                         int threads, const FeatureCache* cache);

}  // namespace privgrad::core
