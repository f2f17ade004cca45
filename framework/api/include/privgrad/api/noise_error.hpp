// The question of `privgrad noise-error`: which mechanism has the least noise at a manifest's guarantee.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/api/predicted_noise.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::api {

/// Reads the manifest of a call, with these overrides (KEY=VALUE) beside those of the call.
using ManifestReader = std::function<core::Manifest(const std::vector<std::string>& overrides)>;

/// What a call may say of the releases to compare; what is left out is the manifest's.
struct NoiseQuestion {
  std::optional<double> momentum = {};              ///< In (0, 1]; 1: prefix sums.
  std::optional<std::uint64_t> restart_every = {};  ///< > 0; of trees.
  std::optional<double> smoothness = {};            ///< > 0; of the loss, for tree_reduced.
  /// Lengths in steps that releases are averaged over, each > 0; by default as many as the momentum
  /// remembers, and ten times as many.
  std::optional<std::vector<std::uint64_t>> windows = {};
  bool samplers = false;  ///< Samplers of the same expected batch size are compared as well.
};

/// The answer for one way to add noise.
struct NoiseArm {
  std::string name;
  std::string aggregator;    ///< As a manifest writes it.
  std::string sampler = {};  ///< The same; empty: the manifest's.
  std::string refused = {};  ///< Why there are no numbers; empty if there are.
  PredictedNoise noise = {};
  bool needs_order = false;  ///< Each epoch in the same order: other manifests are no mistake.
};

/// The noise of every mechanism, at one guarantee.
struct NoiseOfMechanisms {
  core::Manifest manifest;
  double momentum = 1.0;
  std::uint64_t steps = 0;
  std::vector<std::uint64_t> windows;
  bool samplers = false;
  std::vector<NoiseArm> arms;  ///< At least one is not refused.

  /// The mechanism whose iterates have the least noise.
  const NoiseArm& best() const;
};

/// Plans every mechanism at the manifest's guarantee; trains nothing and releases nothing.
/// \throws ConfigError if the manifest has no target, or does not say what the question leaves out;
///   PrivacyError if all mechanisms are refused.
NoiseOfMechanisms noise_of_mechanisms(const ManifestReader& read, const NoiseQuestion& question);

/// As `privgrad noise-error --json` prints it.
nlohmann::json to_json(const NoiseOfMechanisms& noise);

/// One of two manifests whose noise is compared.
struct NoiseSide {
  std::string name;                          ///< Of its file.
  const core::Manifest* manifest = nullptr;  ///< Outlives this.
  core::Plan plan;
  double momentum = 1.0;
  PredictedNoise noise = {};
};

/// A number of each side.
struct NoiseMeasure {
  std::string name;
  std::optional<std::uint64_t> window;
  std::vector<double> values;  ///< [2].

  double ratio() const { return values[1] / values[0]; }
  /// The side with less noise; nothing: it cannot be told.
  std::optional<std::size_t> lower() const;
};

/// The noise of two manifests of one guarantee, each with its own aggregator and steps.
struct NoiseOfTwo {
  std::vector<NoiseSide> sides;  ///< [2].
  std::vector<std::uint64_t> windows;
  std::vector<NoiseMeasure> measures;
  std::vector<std::string> notes;
};

/// \param names      [2]: what the sides are called.
/// \param manifests  [2]; they outlive the result.
/// \throws ConfigError if their guarantees differ, or the question is none of two manifests.
NoiseOfTwo noise_of_two(const std::vector<std::string>& names,
                        const std::vector<core::Manifest>& manifests,
                        const NoiseQuestion& question);

/// As `privgrad noise-error --json` prints it for two manifests.
nlohmann::json to_json(const NoiseOfTwo& noise);

/// The guarantee that both have, in words.
std::string guarantee_of(const core::Manifest& manifest);

}  // namespace privgrad::api
