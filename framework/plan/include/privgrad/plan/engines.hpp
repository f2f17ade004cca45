// The traits of a plan's steps, and the engines that make steps: which supports which trait.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

struct Plan;

/// What the steps of a plan do that not every engine can. Those that components bring have the names
/// of privgrad/traits.hpp.
enum class Trait {
  // of components
  correlated = 1,
  gradient_differences,
  adaptive_clip_norm,
  coordinate_scaling,
  adaptive_noise,
  adaptive_iterations,
  epoch_coins,
  released_statistics,
  unreleased_statistics,
  // of the manifest
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
  streamed,        ///< This process, on rows that are read from a file as they are needed.
  device,          ///< Sums, noise and optimizer stay where the program lives.
  processes,       ///< Several processes share each step.
  federated,       ///< Rounds of clients in this process.
  shared_rounds,   ///< Several processes share the clients of a round.
  remote_clients,  ///< Clients are programs of their own, on other machines.
};

std::string_view to_text(Trait trait);
std::string_view to_text(Engine engine);

/// All of them, in the order above.
std::span<const Trait> all_traits();
std::span<const Engine> all_engines();

/// One line: "releases depend on sums or noise of earlier steps".
std::string_view meaning_of(Trait trait);
/// One line: "several processes that share each step".
std::string_view meaning_of(Engine engine);

/// A trait, and where it comes from.
struct PlannedTrait {
  Trait trait;
  /// The component that brings it; null: the manifest.
  const ComponentUse* of = nullptr;
};

/// Whether the engine declares that it supports the trait.
bool supports(Engine engine, Trait trait);

/// \returns the reason for which the engine does not support the trait, one line that names it;
///   nothing: it does. What an engine does not declare is refused.
std::optional<std::string> why_not(Engine engine, Trait trait);

/// \returns the reason for which the engine cannot make the steps of this plan; "": it can.
std::string why_not(Engine engine, const Plan& plan);

/// The traits of the plan, from what its components do and its manifest asks for.
/// \throws PluginError for a component with a trait that it does not declare.
std::vector<PlannedTrait> traits_of(const Plan& plan);

/// Checks that every trait which a component of the manifest declares is one of
/// privgrad/traits.hpp.
/// \throws ManifestError with the component's place for one that is not: no engine knows what it
///   asks for.
void check_traits_are_known(const Manifest& manifest);

/// The table of engines and traits, as Markdown: docs/engines.md has it.
std::string engines_table();

}  // namespace privgrad::core
