// A value that was released, in another process of the run.
#pragma once

#include <vector>

#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// The values of a Released of this run, for a component of another process.
///
/// Privacy: what was released is public, so that whoever has its values may compute with them.
/// \param values, noise_stddev  of a Released, and of nothing else.
Released released_again(std::vector<float> values, double noise_stddev);

}  // namespace privgrad::core
