// Replaces features by the outputs of the frozen layers, which a run computes once for all steps.
#pragma once

#include <memory>

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/plan/setting.hpp"

namespace privgrad::core {

/// The program of the frozen layers.
/// \param backend  made; must outlive the program.
/// \throws ManifestError if the model executes itself, or the backend's programs give no outputs
///   (Outputs).
std::unique_ptr<Program> compile_frozen_layers(const Manifest& manifest, const Setting& setting,
                                               ComponentPtr<Backend>& backend, Executor& executor);

/// Replaces the features of all examples by the outputs of the frozen layers for them; nothing to
/// do where no layer is frozen.
///
/// Privacy: an example's outputs are a function of that example and of the weights alone, bit for
/// bit (Outputs promises it, the conformance suite tests it), as with a RowTransform. So data sets
/// that differ in one example still do, and the proofs about the later layers hold as they stand.
/// An example that overflows, or was NaN before, becomes NaN; its gradient then counts as zero.
/// \param cache  where the outputs are taken from if they are there, and kept if not; null:
///   neither. They are the same bits: everything that they follow from is compared by its hash.
void apply_frozen_layers(const Manifest& manifest, const Setting& setting, RunData& data,
                         int threads, const FeatureCache* cache);

}  // namespace privgrad::core
