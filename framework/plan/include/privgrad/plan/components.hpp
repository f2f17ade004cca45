// The sampler, clipping, aggregator and optimizer of a plan: making and starting them.
#pragma once

#include <span>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/sampler.hpp"

namespace privgrad::core {

/// The components that train on one owner's data. They have states of their own, so that planning
/// makes its own, and so does each trainer.
struct Components {
  ComponentPtr<Sampler> sampler;
  /// Started. It is shown private norms, and asked for factors alone.
  ComponentPtr<Clipping> clipping;
  /// Started: another instance, which no norm is ever shown to, for all that a run makes public of a
  /// clipping (the abilities below).
  ComponentPtr<Clipping> public_clipping;
  ComponentPtr<Aggregator> aggregator;
  ComponentPtr<Optimizer> optimizer;

  /// Abilities, null where a component lacks them.
  const AdaptiveClipNorm* adaptive_clip_norm = nullptr;  ///< Of public_clipping.
  CoordinateScaling* scaling = nullptr;                  ///< Of public_clipping.
  UsesGradientDifferences* differences = nullptr;
  PublicOrder* order = nullptr;
};

/// Makes the components that the manifest names; none is started.
/// \param groups  of the network's parameters.
Components make_components(const Manifest& manifest, std::span<const ParameterGroup> groups);

/// The same, started for a plan, so that they make the planned releases and no others.
Components start_components(const Plan& plan);

/// What started components charge for releases that are independent of each other.
/// \throws PrivacyError, PluginError, with the place.
std::vector<Charge> independent_charges(const Manifest& manifest, const Components& made,
                                        std::uint64_t steps);

/// Checks that the run makes the releases that were accounted: components made for a plan must
/// charge each step as those did that planned it. Those of a public order are checked batch by batch
/// instead, and run by the plan's own recipes.
/// \throws PluginError naming the first step that is charged otherwise.
void check_charges(const Plan& plan, const Components& started);

/// Starts the sampler.
/// \param batch_sizes  one per step; empty: the sampler's own.
/// \returns how many examples it expects in each step.
/// \throws ManifestError, PrivacyError with the place if it does not follow the sizes, or has no
///   proof.
std::vector<double> start_sampler(const Manifest& manifest, Sampler& sampler, const RunFacts& facts,
                                  const std::vector<double>& batch_sizes);

/// Starts the aggregator.
/// \param noise_multiplier  all above 0, also without noise, where recipes are never run.
void start_aggregator(const Manifest& manifest, Aggregator& aggregator, const RunFacts& facts,
                      const std::vector<double>& noise_multiplier,
                      const std::vector<double>& clip_norm,
                      const std::vector<double>& learning_rate);

}  // namespace privgrad::core
