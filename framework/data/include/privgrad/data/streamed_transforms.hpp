#pragma once

#include "privgrad/data/run_data.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// Whether a transform can be applied to rows that memory does not hold: one by one (RowTransform), and
/// with nothing that it would have to learn from all of them at once.
/// \throws ConfigError if not; it says why.
void check_streamable(const ComponentUse& use, const Transform& transform);

/// The transforms of a manifest, for rows that lie in a file: what they make of the rows is written to
/// another one, which takes their place. The same bits as apply_transform(), for any number of threads.
///
/// As many transforms as possible share a file. One that learns from a released statistic is taught from
/// the rows as those before it have left them, so they are written first; what is made behind the first
/// one differs in every run, and lies in a file without a name that is gone with the process. All other
/// files are kept and found again: by the rows' own hash, and by the transforms' code and parameters.
/// \param data  of which `kept_as` says what the rows are called; "": nothing is kept.
/// \throws as apply_transform()
void apply_streamed_transforms(const Manifest& manifest, RunData& data, Executor& executor,
                               Teacher* teacher);

}  // namespace privgrad::core
