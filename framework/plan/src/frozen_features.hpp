// Replaces features by the outputs of the frozen layers, which a run computes once for all steps.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/setting.hpp"

namespace privgrad::core {

/// Programs that make the values which layers behind the frozen ones use.
struct FrozenFront {
  struct Value {
    Network network;                   ///< The layers that make it; without nodes for the features.
    std::unique_ptr<Program> program;  ///< Null for the features.
    std::size_t size = 0;              ///< Numbers per example.
  };

  ComponentPtr<Backend> backend;  ///< Of the programs, which it outlives.
  std::vector<Value> values;
};

/// \throws ManifestError if the backend's programs return no outputs (Outputs).
FrozenFront compile_frozen_layers(const Manifest& manifest, const Setting& setting,
                                  Executor& executor);

/// Replaces the features of all examples by the frozen layers' outputs for them; does nothing if no
/// layer is frozen.
///
/// Privacy: an example's outputs are a function only of that example and the weights, bit for bit
/// (Outputs promises it, the conformance suite tests it), as with a transform by row. So data sets
/// that differ in one example still do, and the proofs about the later layers are unaffected. An
/// example that overflows, or was NaN before, becomes NaN; its gradient then counts as zero.
/// \param cache  provides and stores the outputs; null: no cache. Cached outputs have the same
///   bits: everything from which they follow is compared by its hash.
void apply_frozen_layers(const Manifest& manifest, const Setting& setting, RunData& data,
                         int threads, const FeatureCache* cache);

}  // namespace privgrad::core
