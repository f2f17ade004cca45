// The traits of components: what steps with them do that not every engine can.
#pragma once

#include <array>
#include <string_view>

/// The names for ComponentInfo::traits. A component declares every trait that it has with some of
/// its parameters; most have none. A plan works out from what its components do which traits its
/// steps have, and refuses a component that shows one that it does not declare. The engines that
/// make steps (in this process, on a device, among processes, at clients, ...) declare in turn which
/// traits they support, and refuse all others by name, those that they have never heard of included:
/// `docs/engines.md` has the table.
namespace privgrad::trait {
// NOLINTBEGIN(readability-identifier-naming): spelt as manifests and pages spell them
/// Of an aggregator: a release depends on sums or noise of earlier steps.
inline constexpr std::string_view correlated = "correlated";
/// Of an aggregator: it has the ability UsesGradientDifferences.
inline constexpr std::string_view gradient_differences = "gradient_differences";
/// Of a clipping: it has the ability AdaptiveClipNorm, so that a count is released in each step.
inline constexpr std::string_view adaptive_clip_norm = "adaptive_clip_norm";
/// Of a clipping: it has the ability CoordinateScaling.
inline constexpr std::string_view coordinate_scaling = "coordinate_scaling";
/// Of a schedule: it has the ability AdaptiveSchedule, so that noise follows from releases.
inline constexpr std::string_view adaptive_noise = "adaptive_noise";
/// Of a schedule: it has the ability AdaptiveLocalIterations, so that clients estimate losses.
inline constexpr std::string_view adaptive_iterations = "adaptive_iterations";
/// Of a sampler: it charges epochs as "random_allocation", so that secret coins last for an epoch.
inline constexpr std::string_view epoch_coins = "epoch_coins";
/// Of a transform: it has the ability BoundedStatistic, so that a sum over all rows is released.
inline constexpr std::string_view released_statistics = "released_statistics";
/// Of a transform: it learns from all training rows in memory, and nobody pays for that.
inline constexpr std::string_view unreleased_statistics = "unreleased_statistics";
// NOLINTEND(readability-identifier-naming)
/// All of them.
inline constexpr std::array<std::string_view, 9> kAll{
    correlated,         gradient_differences, adaptive_clip_norm,
    coordinate_scaling, adaptive_noise,       adaptive_iterations,
    epoch_coins,        released_statistics,  unreleased_statistics};

}  // namespace privgrad::trait
