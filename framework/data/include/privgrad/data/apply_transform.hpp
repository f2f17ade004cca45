// Applies a manifest's transforms to rows in memory, and checks that they keep every example.
#pragma once

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/data/run_data.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/manifest/component_use.hpp"
#include "privgrad/transform.hpp"

namespace privgrad::core {

/// \returns whether a FeatureCache may store the transform's outputs: if they are costly to
///   compute, and an example's output depends only on this example and the transform's parameters
///   and code.
bool is_worth_keeping(const Transform& transform);

/// The properties of a transform from which the plan derived the transform's charge and its entry
/// in the list of unaccounted uses.
struct PlannedTransform {
  std::size_t number = 0;  ///< The transform's number in the manifest.
  Statistic statistic = Statistic::none;
  bool is_by_row = false;
};

/// Lets a transform learn, then applies it to both splits: row by row if the transform promises to
/// work on single rows (Transform::is_by_row()).
///
/// The proofs concern the examples that the plan knows: a transform that turned one example into
/// eight would let this example change a sum by eight clip norms. So the number of examples, their
/// targets (bit by bit) and their order are checked after every transform. To check the order, some
/// examples, including the first and the last, are transformed alone and compared with the rows in
/// their places, unless these came from the cache: bit by bit if rows are transformed one by one,
/// and otherwise nearly.
/// \param executor  its threads transform rows one by one; their number does not change a bit.
/// \param cache  provides and stores the outputs of a costly transform; null: no cache. Cached
///   outputs have the same bits: everything that determines them is compared by its hash.
/// \param teacher  teaches a transform that learns from a released statistic instead of being
///   fitted; null: such a transform is refused.
/// \returns the values that the transform has learnt.
/// \throws PluginError as learn(), or if the shape, the number, the targets or the order of the
///   examples is not as declared; ManifestError if a required teacher is null.
FittedTransform apply_transform(const ComponentUse& use, const PlannedTransform& planned,
                                RunData& data, Executor& executor, const FeatureCache* cache,
                                Teacher* teacher);

/// Lets a new transform learn before it is applied to a row: from a released statistic, which the
/// teacher computes with other instances; from the training rows, if this is stated publicly
/// (Statistic::unaccounted, declared_public); or from a row of zeros, if it learns nothing from
/// rows.
///
/// Privacy: if a transform claims to reveal only released or given numbers, this instance has seen
/// nothing else. So its learnt values cannot reveal more by mistake. Neither can its outputs for
/// public rows, which are transformed before private rows.
/// \param teacher  the same as for apply_transform().
/// \returns the values that the transform has learnt, as fitted_of() returns them.
/// \throws PluginError as fitted_of(), or if the Statistic differs from the plan; ConfigError if
///   a required teacher is null.
FittedTransform learn(const ComponentUse& use, const PlannedTransform& planned,
                      Transform& transform, Dataset& train, Teacher* teacher);

/// \returns the values that a transform has learnt, after checks that readers of model files
///   repeat.
/// \throws PluginError for a tensor with an invalid name, shape or value, for learnt values without
///   a statistic, and for a released statistic without learnt values.
FittedTransform fitted_of(const ComponentUse& use, const Transform& transform);

/// Checks that an example has the same bits whether it is transformed alone or among others. If the
/// transform overflows on the example, all its features must be NaN.
/// \param shape  the shape of the features.
/// \param features  the features of the example.
/// \param made  its features when transformed among others.
/// \throws PluginError if they differ.
void check_row_alone(const ComponentUse& use, const Transform& transform, const Shape& shape,
                     std::span<const float> features, std::span<const float> made);

}  // namespace privgrad::core
