// Derives the noise key of a release from what was paid for it.
#pragma once

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "privgrad/event.hpp"
#include "privgrad/trust/event_json.hpp"
#include "privgrad/trust/random_key.hpp"

namespace privgrad::core {

/// The key of one release's noise, where each step has a key of its own.
///
/// A copy of a run's state that goes on may come to another multiplier at the same step, or to
/// another clip norm. With the same normals z, s + a z and s' + b z would give both sums away; with
/// keys that follow what was paid for, the two have nothing in common. The sampling rate is one of
/// the plan's numbers, which the key of the step is bound to.
/// \param release  the event that was paid for, before the sampler's amplification, with the
///   multiplier.
/// \param l2_bound  bound of a contribution, which the multiplier is relative to.
inline RandomKey key_of_paid(const RandomKey& noise_key, const Event& release, double l2_bound) {
  return noise_key.derive("paid\n" + to_json(release).dump() + "\n" +
                          std::to_string(std::bit_cast<std::uint64_t>(l2_bound)));
}

}  // namespace privgrad::core
