#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "privgrad/cluster.hpp"
#include "privgrad/trust/grid.hpp"

namespace privgrad::core {

/// The rows of a batch that a process sums: parts of about the same size, in the batch's order, each
/// row in exactly one of them.
/// \param batch  row numbers in a data set of `rows`, each at most once.
/// \param rank  below `processes`.
/// \throws PluginError for a row number that is out of range or repeated, anywhere in the batch: twice
///   in two shares an example would be twice as long as the bound, and neither sum would show it.
std::span<const std::uint32_t> share_of(std::span<const std::uint32_t> batch, std::size_t rows,
                                        std::size_t rank, std::size_t processes);

/// At process 0: the sum over a batch, of which every process has summed its share.
///
/// Sensitivity: an example is in one share, so it adds to one of the sums what it would add to the
/// sum of one process, and whole numbers have no order: the result has the same bits on any number of
/// processes, and the bound of the shares is its bound. It is a sum of `rows` contributions, which the
/// checks against overflow are about.
/// \param share  of process 0, over share_of(batch, 0, cluster.size()).
/// \param rows  of the whole batch.
/// \throws as Cluster::add_up()
BoundedOnGrid add_shares(BoundedOnGrid share, std::size_t rows, Cluster& cluster);

/// The same at every other process, which keeps nothing of it.
/// \throws as Cluster::add_up()
void give_share(BoundedOnGrid share, Cluster& cluster);

}  // namespace privgrad::core
