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

/// The sum of sum_of_rows_on_grid(), kExactLevels per clip norm and without a count, of contributions
/// that are made and added piece by piece: a piece of the sum stays in the processor's caches while many
/// examples are added to it, and so does the piece of each.
///
/// Bound: a contribution's length and its cells come of two calls. The squares of the cells that were
/// added are added up as integers, and a sum in which an example added more than kExactLevels^2 is given
/// to nobody. That takes a contribution that is another one the second time, whatever the data are:
/// round_to_grid() says why one that is the same fits.
/// \param size  numbers in a contribution, > 0.
/// \param clip  has one group.
/// \param who  made the contributions, for errors.
/// \throws PluginError as above.
std::vector<std::int64_t> sum_of_pieces_on_grid(const PiecesOf& pieces_of, const Dataset& data,
                                                std::size_t size, const Clip& clip,
                                                std::string_view who, Executor& executor);

}  // namespace privgrad::core
