// The checks that every optimizer makes before a step.
#pragma once

#include <cmath>
#include <span>
#include <string>

#include "privgrad/error.hpp"
#include "privgrad/optimizer.hpp"

namespace optimizers {

/// \throws NumericError if the learning rate is not finite as a float32.
inline void check_rate(const std::string& who, double learning_rate) {
  if (!std::isfinite(static_cast<float>(learning_rate)))
    throw privgrad::NumericError(who + ": the learning rate is not finite as a float32");
}

/// \param started  the number of parameters for which the optimizer was started.
/// \throws PluginError if the number of parameters or of gradient elements differs; NumericError if
///   the gradient is not finite.
inline void check_step(const std::string& who, std::size_t started,
                       std::span<const float> parameters, const privgrad::Released& gradient) {
  if (parameters.size() != started || gradient.values().size() != started) {
    throw privgrad::PluginError(who + ": got " + std::to_string(parameters.size()) +
                                " parameters and " + std::to_string(gradient.values().size()) +
                                " gradient values, started for " + std::to_string(started));
  }
  if (!gradient.is_finite()) throw privgrad::NumericError(who + ": the gradient is not finite");
}

}  // namespace optimizers
