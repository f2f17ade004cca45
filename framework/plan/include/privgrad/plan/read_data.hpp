// Reads the training and test rows of a plan, and applies transforms and frozen layers to them.
#pragma once

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/setting.hpp"

namespace privgrad::core {

/// \throws IoError if the number of examples differs from the plan's; PluginError if a transform
///   changed the set of examples (apply_transform.hpp); ManifestError if data.size or a transform
///   needs a release that only a run makes.
RunData read_data(const Manifest& manifest, const Setting& setting);

/// The two halves of read_data(): read_rows() returns the source's examples, and apply_transforms()
/// applies transforms and frozen layers to them.
/// \param source  the manifest's data; errors name its place.
/// \param threads  the number of threads for transforming rows and computing frozen layers; results
///   have the same bits for any number.
/// \param cache  provides and stores outputs of frozen layers and costly transforms; may be null.
/// \param teacher  the teacher for transforms that learn from released statistics; null: no
///   transform may do so.
RunData read_rows(const ComponentUse& source, const Setting& setting);
void apply_transforms(const Manifest& manifest, const Setting& setting, RunData& data,
                      int threads = 1, const FeatureCache* cache = nullptr,
                      Teacher* teacher = nullptr);

}  // namespace privgrad::core
