// What batches must look like that are charged as epochs of random allocation, or as cycles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace privgrad::testing {

using Batch = std::vector<std::uint32_t>;

/// Breaks the rule if a sum of independent draws with this mean and variance is unbelievably far
/// off: 8 standard deviations, and 4 for sums so small that they are no normal variable. A right
/// sampler fails less than once in 10^8 times; the streams are fixed, so it always or never fails.
void require_near(double sum, double mean, double variance, const std::string& what);

/// Breaks the rule unless each row is in one batch of each epoch, drawn uniformly, by itself, and
/// anew in each epoch.
/// \param batches  of consecutive steps, from the first of an epoch; of rows below `rows`.
void require_epochs(const std::vector<Batch>& batches, std::uint64_t epoch_steps, std::size_t rows);

/// Breaks the rule unless row i is drawn in the step i mod cycle of each cycle alone.
/// \returns for each step of a cycle its batches, with the rows of that step counted from 0.
std::vector<std::vector<Batch>> batches_of_groups(const std::vector<Batch>& batches,
                                                  std::uint64_t cycle);

}  // namespace privgrad::testing
