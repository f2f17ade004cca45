// Reads the training and test rows of a plan, and applies transforms and frozen layers to them.
#pragma once

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/setting.hpp"

namespace privgrad::core {

/// \throws IoError if there are fewer examples than planned, or more; PluginError if a transform
///   changed the set of examples (apply_transform.hpp); ManifestError if a transform learns from a
///   statistic that a run must release.
RunData read_data(const Manifest& manifest, const Setting& setting);

/// The two halves of read_data(): the first returns the source's examples, the second applies
/// transforms and frozen layers to them.
/// \param threads  the threads for transforming rows and computing frozen layers; the same bits for
///   any number.
/// \param cache  the cache for the outputs of frozen layers and of costly transforms; null: none.
/// \param teacher  the teacher for transforms that learn from released statistics; null: there must
///   be none.
RunData read_rows(const Manifest& manifest, const Setting& setting);
void apply_transforms(const Manifest& manifest, const Setting& setting, RunData& data,
                      int threads = 1, const FeatureCache* cache = nullptr,
                      Teacher* teacher = nullptr);

}  // namespace privgrad::core
