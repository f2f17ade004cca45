// Released values, noise orders and cells for tests and the conformance suite; never for real rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/resident_steps.hpp"

namespace privgrad::core {

class BoundedOnGrid;
class RandomKey;

/// A released value made of nothing, for showing optimizers made-up gradients: the conformance
/// suite needs gradients that no run would release, such as NaN.
///
/// Privacy: pays for nothing and noises nothing. Link privgrad::core_testing where values are made
/// up, never where rows are read; the core itself does not.
Released released_for_testing(std::vector<float> values, double noise_stddev);

/// An order of noise that nobody paid for, by a key of this number's own, which is no secret.
NoiseOrder noise_order_for_testing(std::uint64_t number, double sigma, unsigned shift);

/// The release that an order asks for, of the elements from `first` on (RoundedGaussianStream).
void release_for_testing(const NoiseOrder& order, std::uint64_t first,
                         std::span<const std::int64_t> sums, std::span<std::int64_t> out);

/// The cells of a sum that nothing was paid for, to be compared with what they should be.
std::vector<std::int64_t> cells_for_testing(const BoundedOnGrid& sum);

/// The values that a release of a sum in whole cells has, with noise of the streams 0, 1, ... of a
/// key, one for each sigma (src/rounded_release.hpp).
std::vector<float> rounded_for_testing(std::vector<std::int64_t> cells, const RandomKey& key,
                                       std::span<const double> sigmas, unsigned shift, double width,
                                       std::size_t first, Executor& executor);

}  // namespace privgrad::core
