// Applies a manifest's transforms to rows in a file, for data sets that memory does not hold.
#pragma once

#include "privgrad/data/run_data.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// Checks that a transform can be applied to rows that memory does not hold: one by one
/// (RowTransform), and with nothing that it would have to learn from all of them at once.
/// \throws ConfigError with the reason if it cannot.
void check_streamable(const ComponentUse& use, const Transform& transform);

/// Applies the transforms of a manifest to rows that lie in a file: the transformed rows are
/// written to another file, which takes the first one's place. The same bits as apply_transform(),
/// for any number of threads.
///
/// Successive transforms share a file where possible. One that learns from a released statistic is
/// taught from the rows as those before it have left them, so these are written first. Rows behind
/// the first such transform differ in every run, and lie in a file without a name that is gone with
/// the process. All other files are kept and found again by the rows' own hash, and by the
/// transforms' code and parameters.
/// \param data  its `kept_as` names the rows; "": nothing is kept.
/// \throws as apply_transform()
void apply_streamed_transforms(const Manifest& manifest, RunData& data, Executor& executor,
                               Teacher* teacher);

}  // namespace privgrad::core
