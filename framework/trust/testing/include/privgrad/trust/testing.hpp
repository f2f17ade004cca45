#pragma once

#include <cstdint>
#include <vector>

#include "privgrad/privacy.hpp"

namespace privgrad::core {

class BoundedOnGrid;

/// A released value made of nothing, for showing optimizers made-up gradients: the conformance
/// suite needs gradients that no run would release, such as NaN.
///
/// Privacy: pays for nothing and noises nothing. Link privgrad::core_testing where values are made
/// up, never where rows are read; the core itself does not.
Released released_for_testing(std::vector<float> values, double noise_stddev);

/// The cells of a sum that nothing was paid for, to be compared with what they should be.
std::vector<std::int64_t> cells_for_testing(const BoundedOnGrid& sum);

}  // namespace privgrad::core
