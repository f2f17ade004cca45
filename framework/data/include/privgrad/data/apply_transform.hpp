// Applies a manifest's transforms to rows in memory, and checks that they keep every example.
#pragma once

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// \returns whether the transform's outputs follow from the examples, its parameters and its code
///   alone, and are costly to compute, so that a FeatureCache may keep them.
bool is_worth_keeping(const Transform& transform);

/// Lets a transform learn, and applies it to both splits: row by row where it has that ability
/// (RowTransform).
///
/// The proofs are about the examples that the plan knows: a transform that made eight of one would
/// let it move a sum by eight clip norms. So their number, their targets and their order are
/// compared after every transform. Targets are compared bit by bit. The order is kept by
/// construction where rows are transformed one by one; otherwise some examples, the first and the
/// last among them, are transformed alone and compared with the rows in their places, bit for bit
/// where rows are given at once.
/// \param executor  its threads transform rows one by one; the same bits for any number.
/// \param cache  where the outputs of a costly transform are taken from if they are
///   there, and kept if not; null: neither. They are the same bits: everything that they follow
///   from is compared by its hash.
/// \param number  of the transform in the manifest.
/// \param teacher  for a transform that learns from a released statistic, which is not fitted;
///   null: it is refused.
/// \returns the values that the transform has learnt.
/// \throws PluginError if any of them changed, or the shape is not the one that the plan was told;
///   ManifestError where there is no teacher.
FittedTransform apply_transform(const ComponentUse& use, std::size_t number, RunData& data,
                                Executor& executor, const FeatureCache* cache, Teacher* teacher);

/// Lets a new transform learn, before it is applied to a row: from a released statistic, which the
/// teacher asks of other instances; from the training rows where everybody is told so
/// (Statistic::unaccounted, declared_public); or from a row of zeros where it needs none.
///
/// Privacy: where a transform claims that it gives away no more than what was released or given, this
/// instance has seen nothing else, so that what it has learnt, and what it makes of public rows
/// before it is shown private ones, cannot be more by mistake.
/// \param teacher  as for apply_transform().
/// \returns the values that it has learnt, as fitted_of().
/// \throws as apply_transform().
FittedTransform learn(const ComponentUse& use, std::size_t number, Transform& transform,
                      Dataset& train, Teacher* teacher);

/// \returns the values that a transform has learnt. They go into a file whose readers make the
///   same checks.
/// \throws PluginError for a tensor without a proper name or shape, or that it may not have.
FittedTransform fitted_of(const ComponentUse& use, const Transform& transform);

/// Checks that an example which was transformed among others became what it becomes
/// alone, bit for bit; one that overflows is NaN throughout.
/// \param shape  of the features.
/// \param features  of the example. \param made  what it became.
/// \throws PluginError if not.
void check_row_alone(const ComponentUse& use, const RowTransform& transform, const Shape& shape,
                     std::span<const float> features, std::span<const float> made);

}  // namespace privgrad::core
