// The traits of components: behaviour in a step that some engines do not support.
#pragma once

#include <array>
#include <string_view>

/// The names for ComponentInfo::traits. A component declares every trait that it has for some
/// values of its parameters; most components have none. From the components' behaviour, a plan
/// derives which traits its steps have. It refuses a component that shows a trait which the
/// component does not declare. The engines that make steps (in this process, on a device, among
/// processes, at clients, ...) in turn declare which traits they support, and refuse all other
/// traits by name, even unknown ones: `docs/engines.md` has the table.
namespace privgrad::trait {
// NOLINTBEGIN(readability-identifier-naming): spelt as manifests and pages spell them
/// For an aggregator: a release depends on sums or noise of earlier steps.
inline constexpr std::string_view correlated = "correlated";
/// For an aggregator: it has the ability UsesGradientDifferences.
inline constexpr std::string_view gradient_differences = "gradient_differences";
/// For a clipping: it has the ability AdaptiveClipNorm, so that each step releases a count.
inline constexpr std::string_view adaptive_clip_norm = "adaptive_clip_norm";
/// For a clipping: it has the ability CoordinateScaling.
inline constexpr std::string_view coordinate_scaling = "coordinate_scaling";
/// For a schedule: it has a measurement(), so that the noise follows from releases.
inline constexpr std::string_view adaptive_noise = "adaptive_noise";
/// For a schedule: it has the ability AdaptiveLocalIterations, so that clients estimate losses.
inline constexpr std::string_view adaptive_iterations = "adaptive_iterations";
/// For a sampler: it charges epochs as "random_allocation", so secret coins last for an epoch.
inline constexpr std::string_view epoch_coins = "epoch_coins";
/// For a transform: it has the ability BoundedStatistic, so that a sum over all rows is released.
inline constexpr std::string_view released_statistics = "released_statistics";
/// For a transform: it learns from all training rows in memory, and nothing is charged for it.
inline constexpr std::string_view unreleased_statistics = "unreleased_statistics";
// NOLINTEND(readability-identifier-naming)
inline constexpr std::array<std::string_view, 9> kAll{
    correlated,         gradient_differences, adaptive_clip_norm,
    coordinate_scaling, adaptive_noise,       adaptive_iterations,
    epoch_coins,        released_statistics,  unreleased_statistics};

}  // namespace privgrad::trait
