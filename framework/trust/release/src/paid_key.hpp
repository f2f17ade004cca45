// Derives the noise key of a release from the payment for it.
#pragma once

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "privgrad/event.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// Returns the key of one release's noise, if each step has a key of its own.
///
/// A copy of a run's state may continue with another multiplier or clip norm at the same step. With
/// the same normals z, the releases s + a z and s' + b z would reveal both sums; with keys that
/// depend on the payment, the noise of the two releases is unrelated. The sampling rate is one of
/// the plan's numbers, to which the key of the step is already bound.
/// \param release  the event that was paid for, before the sampler's amplification, with the
///   multiplier.
/// \param l2_bound  the bound of a contribution, to which the multiplier is relative.
inline RandomKey key_of_paid(const RandomKey& noise_key, const Event& release, double l2_bound) {
  return noise_key.derive("paid\n" + to_json(release).dump() + "\n" +
                          std::to_string(std::bit_cast<std::uint64_t>(l2_bound)));
}

}  // namespace privgrad::core
