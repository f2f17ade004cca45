// Applies a manifest's transforms to rows in a file, for data sets larger than memory.
#pragma once

#include <span>
#include <vector>

#include "privgrad/data/run_data.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/manifest/streaming.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// Checks that a transform can be applied to rows that do not fit in memory: row by row
/// (Transform::is_by_row()), and without learning from all rows at once.
/// \throws ConfigError with the reason if the transform cannot.
void check_streamable(const ComponentUse& use, const Transform& transform);

/// Applies the transforms of a manifest to rows in a file: writes the transformed rows to another
/// file, which `data` then uses instead. Gives the same bits as apply_transform(), for any number
/// of threads.
///
/// Successive transforms write one file together if possible. A transform that learns from a
/// released statistic needs the output of the preceding transforms, which is therefore written
/// first. The rows after the first such transform differ in every run, so their file has no name
/// and disappears with the process. The other files are kept if the rows have a name (`kept_as`)
/// and each plugin has a hash; they are identified by the hash of the rows and by the transforms'
/// code and parameters.
/// \param data  the rows, and their name `kept_as`; both are replaced.
/// \param planned  one per transform.
/// \throws as apply_transform()
void apply_streamed_transforms(const std::vector<ComponentUse>& transforms,
                               const Streaming& streaming, std::span<const Statistic> planned,
                               RunData& data, Executor& executor, Teacher* teacher);

}  // namespace privgrad::core
