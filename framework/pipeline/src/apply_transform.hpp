#pragma once

#include "privgrad/manifest/component_use.hpp"
#include "privgrad/pipeline/setting.hpp"

namespace privgrad::core {

/// Fits a transform to the training examples, and applies it to both splits: row by row where it
/// has that ability (RowTransform).
///
/// The proofs are about the examples that the plan knows: a transform that made eight of one would
/// let it move a sum by eight clip norms. So their number, their targets and their order are
/// compared after every transform. Targets are compared bit by bit. The order is by construction
/// that of before where rows are transformed one by one; otherwise some examples, the first and the
/// last among them, are transformed alone and compared with what stands in their places.
/// \returns what the transform has learnt.
/// \throws PluginError if any of them changed, or the shape is not the one that the plan was told.
FittedTransform apply_transform(const ComponentUse& use, RunData& data);

}  // namespace privgrad::core
