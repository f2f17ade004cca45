// A released value, in another process of the run.
#pragma once

#include <vector>

#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// Recreates a Released of this run from its values, for a component in another process.
///
/// Privacy: released values are public, so anything may be computed from them.
/// \param values, noise_stddev  from a Released.
Released released_again(std::vector<float> values, double noise_stddev);

}  // namespace privgrad::core
