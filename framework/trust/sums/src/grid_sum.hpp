// The sum of a batch's gradient rows on a grid, for programs without ExactClipping.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/trust/clip_factors.hpp"

namespace privgrad::core {

/// Returns the sum of the cells that round_to_grid() makes of each example's row. If `count` is not
/// 0, one element follows: the sum of +count for each example within the clip norm and -count for
/// each other example. No example adds a vector longer than kExactLevels, its count included.
std::vector<std::int64_t> sum_of_rows_on_grid(const Program& program, const Dataset& data,
                                              std::span<const std::uint32_t> batch,
                                              const Clip& clip, std::uint64_t count,
                                              Executor& executor);

}  // namespace privgrad::core
