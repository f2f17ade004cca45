// The computation behind `privgrad noise-error`: finds the mechanism with the least noise at a
// manifest's guarantee.
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

/// Reads the manifest of a call, with these overrides (KEY=VALUE) in addition to the call's own.
using ManifestReader = std::function<core::Manifest(const std::vector<std::string>& overrides)>;

/// What a call specifies about the compared releases; the manifest provides everything else.
struct NoiseQuestion {
  std::optional<double> momentum = {};              ///< In (0, 1]; 1: prefix sums.
  std::optional<std::uint64_t> restart_every = {};  ///< > 0; for trees.
  std::optional<double> smoothness = {};            ///< Of the loss, > 0, for tree_reduced.
  /// Numbers of steps over which releases are averaged, each > 0; by default 1 / (1 - momentum),
  /// and ten times this number.
  std::optional<std::vector<std::uint64_t>> windows = {};
  /// Whether to compare other samplers, too, with the same expected batch size.
  bool samplers = false;
};

/// The answer for one way to add noise.
struct NoiseArm {
  std::string name;
  std::string aggregator;    ///< In the form of a manifest.
  std::string sampler = {};  ///< In the form of a manifest; empty: the manifest's own.
  std::string refused = {};  ///< The reason if there are no numbers; otherwise empty.
  PredictedNoise noise = {};
  /// Whether the mechanism needs the same order of examples in all epochs. If the manifest has no
  /// such order, only this arm is refused.
  bool needs_order = false;
};

/// The noise of every mechanism, at one guarantee.
struct NoiseOfMechanisms {
  core::Manifest manifest;
  double momentum = 1.0;
  std::uint64_t steps = 0;
  std::vector<std::uint64_t> windows;
  bool samplers = false;
  std::vector<NoiseArm> arms;  ///< At least one arm is not refused.

  /// The mechanism with the least noise in its iterates.
  const NoiseArm& best() const;
};

/// Plans every mechanism at the manifest's guarantee; trains nothing and releases nothing.
/// \throws ConfigError if the manifest has no target, or if neither it nor the question gives a
///   required value; PrivacyError if all mechanisms are refused.
NoiseOfMechanisms noise_of_mechanisms(const ManifestReader& read, const NoiseQuestion& question);

/// Returns the output of `privgrad noise-error --json`.
nlohmann::json to_json(const NoiseOfMechanisms& noise);

/// One of two manifests whose noise is compared.
struct NoiseSide {
  std::string name;                          ///< The name of the manifest's file.
  const core::Manifest* manifest = nullptr;  ///< Must outlive the side.
  core::Plan plan;
  double momentum = 1.0;
  PredictedNoise noise = {};
};

/// A measure of noise: its value for each side.
struct NoiseMeasure {
  std::string name;
  std::optional<std::uint64_t> window;
  std::vector<double> values;  ///< [2].

  double ratio() const { return values[1] / values[0]; }
  /// The side with less noise, 0 or 1; nothing if the values are too close.
  std::optional<std::size_t> lower() const;
};

/// The noise of two manifests with the same guarantee, each with its own aggregator and steps.
struct NoiseOfTwo {
  std::vector<NoiseSide> sides;  ///< [2].
  std::vector<std::uint64_t> windows;
  std::vector<NoiseMeasure> measures;
  std::vector<std::string> notes;
};

/// \param names  [2]: the names of the sides.
/// \param manifests  [2]; must outlive the result.
/// \throws ConfigError if their guarantees differ, or the question does not apply to two manifests.
NoiseOfTwo noise_of_two(const std::vector<std::string>& names,
                        const std::vector<core::Manifest>& manifests,
                        const NoiseQuestion& question);

/// Returns the output of `privgrad noise-error --json` for two manifests.
nlohmann::json to_json(const NoiseOfTwo& noise);

/// Returns the manifest's guarantee, which all compared mechanisms share, in words.
std::string guarantee_of(const core::Manifest& manifest);

}  // namespace privgrad::api
