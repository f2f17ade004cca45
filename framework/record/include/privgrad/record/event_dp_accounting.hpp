// Events as expressions of the Python package dp_accounting, to check epsilons with another
// program.
#pragma once

#include <string>

#include "privgrad/event.hpp"

namespace privgrad::core {

/// Returns the event as an expression of the Python package dp_accounting, for independent checks:
///
///     import dp_accounting as dp
///     event = dp.SelfComposedDpEvent(
///         dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0)), 1000)
///
/// \throws ConfigError for an event that dp_accounting 0.6.0 lacks, such as a discrete Gaussian.
std::string to_dp_accounting(const Event& event);

}  // namespace privgrad::core
