// The traits of a plan's steps, and which engine (code that makes steps) supports which trait.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

struct Plan;

/// A behaviour of a plan's steps that an engine may or may not support. Traits of components have
/// the names of privgrad/traits.hpp.
enum class Trait {
  // traits of components
  correlated = 1,
  gradient_differences,
  adaptive_clip_norm,
  coordinate_scaling,
  adaptive_noise,
  adaptive_iterations,
  epoch_coins,
  released_statistics,
  unreleased_statistics,
  // traits of the manifest
  no_noise,
  floating_sums,
  accuracy_report,
  random_iterate,
  moving_average,
  gradient_norms,
  augmentation,
  adapters,
  initial_weights,
  account,
  streamed_rows,
  clients,
  client_unit,
  private_estimates,
  unaccounted_estimates,
};

/// The engines that make the steps of a run, or of a part of it.
enum class Engine {
  host = 1,        ///< This process, on rows in memory.
  streamed,        ///< This process, on rows that are read from a file when needed.
  device,          ///< Sums, noise and optimizer stay on the program's device.
  processes,       ///< Several processes share each step.
  federated,       ///< Rounds of clients in this process.
  shared_rounds,   ///< Several processes share the clients of a round.
  remote_clients,  ///< Clients are separate programs on other machines.
};

std::string_view to_text(Trait trait);
std::string_view to_text(Engine engine);

std::span<const Trait> all_traits();
std::span<const Engine> all_engines();

/// Describes a trait in one line: "releases depend on sums or noise of earlier steps".
std::string_view meaning_of(Trait trait);
/// Describes an engine in one line: "several processes that share each step".
std::string_view meaning_of(Engine engine);

struct PlannedTrait {
  Trait trait;
  /// The component with this trait; null: the trait comes from the manifest.
  const ComponentUse* of = nullptr;
};

bool supports(Engine engine, Trait trait);

/// \returns why the engine does not support the trait, in one line; nothing if it does.
std::optional<std::string> why_not(Engine engine, Trait trait);

/// \returns why the engine cannot make the steps of this plan; "" if it can.
std::string why_not(Engine engine, const Plan& plan);

/// The traits of the plan, derived from the behaviour of its components and from its manifest.
/// \throws PluginError for a component that has a trait without declaring it.
std::vector<PlannedTrait> traits_of(const Plan& plan);

/// Checks that every trait that a component of the manifest declares is listed in
/// privgrad/traits.hpp.
/// \throws ManifestError with the component's place for any other trait, because no engine can
///   support it.
void check_traits_are_known(const Manifest& manifest);

}  // namespace privgrad::core
