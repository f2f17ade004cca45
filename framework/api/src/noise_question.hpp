// Checks and defaults of noise_of_mechanisms() and noise_of_two().
#pragma once

#include <cstdint>
#include <vector>

#include "privgrad/api/noise_error.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::api {

inline constexpr const char* kWhichMomentum =
    "the momentum is missing; give --momentum (1 for prefix sums), or a manifest whose aggregator "
    "is a tree or matrix";

/// \throws ConfigError naming a number that is out of its range.
void require_ranges(const NoiseQuestion& question);

/// \throws ConfigError if the manifest has no privacy.target_epsilon.
void require_target(const core::Manifest& manifest);

/// Returns the momentum of a manifest whose aggregator has one; plans the manifest if the momentum
/// is auto.
double momentum_of(const core::Manifest& manifest);

/// Returns the default windows for averaging, if the run is long enough: the momentum's memory,
/// 1 / (1 - momentum) steps, and ten times that; none for prefix sums.
std::vector<std::uint64_t> remembered_steps(double momentum, std::uint64_t steps);

/// \returns `windows`.
/// \throws ConfigError if there are no windows, or a window is not in [1, steps].
std::vector<std::uint64_t> windows_within(const std::vector<std::uint64_t>& windows,
                                          std::uint64_t steps);

}  // namespace privgrad::api
