// Makes and starts the sampler, clipping, aggregator and optimizer of a plan.
#pragma once

#include <span>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/sampler.hpp"

namespace privgrad::core {

/// The components that train on one owner's data. They have state, so planning and each trainer
/// make their own instances.
struct Components {
  ComponentPtr<Sampler> sampler;
  /// A started instance that receives private norms, and is only asked for factors.
  ComponentPtr<Clipping> clipping;
  /// A second started instance, which never receives a norm. Everything that a run publishes about
  /// the clipping comes from this instance (the abilities below).
  ComponentPtr<Clipping> public_clipping;
  ComponentPtr<Aggregator> aggregator;
  ComponentPtr<Optimizer> optimizer;

  /// Abilities; null if a component lacks them.
  const AdaptiveClipNorm* adaptive_clip_norm = nullptr;  ///< Of public_clipping.
  CoordinateScaling* scaling = nullptr;                  ///< Of public_clipping.
  UsesGradientDifferences* differences = nullptr;
  PublicOrder* order = nullptr;
};

/// Makes the components that the manifest names, without starting them.
/// \param groups  the groups of the network's parameters.
Components make_components(const Manifest& manifest, std::span<const ParameterGroup> groups);

/// Makes and starts the components for a plan, so that they make exactly the planned releases.
Components start_components(const Plan& plan);

/// The charges of started components for releases that are independent of each other.
/// \throws as release_events(), with the aggregator's position, and sampled_charges().
std::vector<Charge> independent_charges(const Manifest& manifest, const Components& made,
                                        std::uint64_t steps);

/// Checks that the run makes the releases that were accounted: components made for a plan must
/// charge each step in the same way as the components that planned it. Components with a public
/// order are checked batch by batch instead, and use the plan's own recipes.
/// \throws PluginError that names the first step with a different charge.
void check_charges(const Plan& plan, const Components& started);

/// \param batch_sizes  one per step; empty: the sampler decides.
/// \returns the expected number of examples of each step.
/// \throws ManifestError if a size exceeds the number of examples, or if the sampler does not
///   follow the sizes; the sampler's own errors. All name the place.
std::vector<double> start_sampler(const Manifest& manifest, Sampler& sampler, const RunFacts& facts,
                                  const std::vector<double>& batch_sizes);

/// \param noise_multiplier  all > 0, even in runs without noise: recipes then only combine sums.
void start_aggregator(const ComponentUse& use, Aggregator& aggregator, const RunFacts& facts,
                      const std::vector<double>& noise_multiplier,
                      const std::vector<double>& clip_norm,
                      const std::vector<double>& learning_rate);

}  // namespace privgrad::core
