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

/// Returns a released value with arbitrary content, for invented gradients: the conformance suite
/// passes optimizers gradients that no run would release, such as NaN.
///
/// Privacy: nothing is charged and no noise is added. Link privgrad::core_testing only into code
/// with invented values, never into code that reads rows; the core itself does not link it.
Released released_for_testing(std::vector<float> values, double noise_stddev);

/// Returns a noise order that nobody paid for, with a key that depends only on this number and is
/// not secret.
NoiseOrder noise_order_for_testing(std::uint64_t number, double sigma, unsigned shift);

/// Computes the release of an order, for the elements from `first` on (RoundedGaussianStream).
void release_for_testing(const NoiseOrder& order, std::uint64_t first,
                         std::span<const std::int64_t> sums, std::span<std::int64_t> out);

/// Returns the cells of a sum for which nothing was paid, for comparison with expected cells.
std::vector<std::int64_t> cells_for_testing(const BoundedOnGrid& sum);

/// Returns the released values of a sum in whole cells, with noise from the streams 0, 1, ... of a
/// key, one stream per sigma (src/rounded_release.hpp).
std::vector<float> rounded_for_testing(std::vector<std::int64_t> cells, const RandomKey& key,
                                       std::span<const double> sigmas, unsigned shift, double width,
                                       std::size_t first, Executor& executor);

}  // namespace privgrad::core
