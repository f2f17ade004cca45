// Events in words, for human readers.
#pragma once

#include <string>

#include "privgrad/event.hpp"

namespace privgrad::core {

/// Returns an event in words: "100 x Poisson sampled at 0.01 of gaussian of noise multiplier 1.1".
std::string describe(const Event& event);

}  // namespace privgrad::core
