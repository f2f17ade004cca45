// Events in words, for people.
#pragma once

#include <string>

#include "privgrad/event.hpp"

namespace privgrad::core {

/// An event in words: "100 x Poisson sampled at 0.01 of gaussian of noise multiplier 1.1".
std::string describe(const Event& event);

}  // namespace privgrad::core
