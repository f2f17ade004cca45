// The sum of long contributions, made and added piece by piece to stay in the CPU's caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/row_sum.hpp"

namespace privgrad::core {

/// Returns the sum of sum_of_rows_on_grid(), with kExactLevels per clip norm and without a count,
/// for contributions that are computed and added in pieces. A piece of the sum stays in the
/// processor's caches while the pieces of many examples are added to it.
///
/// Bound: a contribution's length and its cells come from two separate calls. The squares of the
/// added cells are therefore summed as integers too, and if an example added more than
/// kExactLevels^2, the sum is discarded with an error. That happens only if a contribution differs
/// between the two calls; round_to_grid() explains why a contribution that does not change fits.
/// \param size  the number of elements in a contribution, > 0.
/// \param clip  has one group.
/// \param who  the maker of the contributions, for errors.
/// \throws PluginError if an example added cells whose squares exceed kExactLevels^2.
std::vector<std::int64_t> sum_of_pieces_on_grid(const PiecesOf& pieces_of, const Dataset& data,
                                                std::size_t size, const Clip& clip,
                                                std::string_view who, Executor& executor);

}  // namespace privgrad::core
