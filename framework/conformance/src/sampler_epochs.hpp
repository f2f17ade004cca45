// Checks batches that are charged as epochs of random allocation, or as cycles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace privgrad::testing {

using Batch = std::vector<std::uint32_t>;

/// Breaks the rule if a sum of independent draws with this mean and variance deviates too far: by 8
/// standard deviations, plus 4, for sums so small that they are not normal. A correct sampler fails
/// less than once in 10^8 times; the streams are fixed, so a sampler fails always or never.
void require_near(double sum, double mean, double variance, const std::string& what);

/// Breaks the rule unless each row is in one batch of each epoch, drawn uniformly, independently of
/// other rows, and anew in each epoch.
/// \param batches  the batches of consecutive steps, beginning with an epoch; their rows are below
///   `rows`.
void require_epochs(const std::vector<Batch>& batches, std::uint64_t epoch_steps, std::size_t rows);

/// Breaks the rule unless row i is drawn only in step i mod cycle of each cycle.
/// \returns for each step of a cycle its batches, with the rows of that step counted from 0.
std::vector<std::vector<Batch>> batches_of_groups(const std::vector<Batch>& batches,
                                                  std::uint64_t cycle);

}  // namespace privgrad::testing
