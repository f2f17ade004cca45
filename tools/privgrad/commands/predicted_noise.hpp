// The noise that a plan's releases of momentum or prefix sums have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/plan.hpp"

namespace privgrad::tool {

/// In units of the released gradient: the clip norm over the batch size.
struct PredictedNoise {
  double noise_multiplier = 0.0;      ///< For the first step's own noise.
  std::vector<double> stddev = {};    ///< For each coordinate of the release, per step.
  std::vector<double> averaged = {};  ///< For the mean over a window, for each window.
  /// As in AveragedNoise; of prefix sums, which are iterates, root_mean_square().
  double iterates = 0.0;

  double root_mean_square() const;
};

/// \param momentum  as for averaged_noise().
/// \throws UsageError if the plan spends less than its target.
PredictedNoise predicted_noise(const core::Plan& plan, double momentum,
                               std::span<const std::uint64_t> windows);

/// The manifest that is operand i of a call, with its overrides.
/// \throws UsageError if it has no privacy.target_epsilon.
core::Manifest manifest_with_target(const Arguments& arguments, std::size_t i,
                                    const Catalog& catalog);

/// The momentum of a manifest whose aggregator has one, also where it is auto.
double momentum_of(const core::Manifest& manifest);

/// The default windows to average over: as many steps as the momentum remembers, and ten times as
/// many, where the run has them.
std::vector<std::uint64_t> remembered_steps(double momentum, std::uint64_t steps);

/// The value of --windows; each is at most `steps`.
/// \throws UsageError
std::vector<std::uint64_t> windows_given(const std::string& text, std::uint64_t steps);

}  // namespace privgrad::tool
