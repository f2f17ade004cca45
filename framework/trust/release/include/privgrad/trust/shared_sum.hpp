// Divides a batch among the processes of a cluster, and adds their sums up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "privgrad/cluster.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/grid.hpp"
#include "privgrad/trust/slices.hpp"

namespace privgrad::core {

/// The rows of a batch that a process sums: parts of about the same size, one behind the other, each
/// row in exactly one of them. Rows are in ascending order, so that over many steps a process looks at
/// about its part of the data set and, where this lies in a file, has no more of it in memory.
/// \param batch  row numbers in a data set of `rows`, ascending.
/// \param rank  below `processes`.
/// \throws PluginError for a row number that is out of range, out of order or repeated, anywhere in the
///   batch: twice in two shares an example would be twice as long as the bound, and neither sum would
///   show it.
std::span<const std::uint32_t> share_of(std::span<const std::uint32_t> batch, std::size_t rows,
                                        std::size_t rank, std::size_t processes);

/// Adds up the shares that the processes have summed of a batch, and returns this process's slice
/// of the sum. All processes call it.
///
/// Sensitivity: an example is in one share, so it adds to one of the sums what it would add to the
/// sum of one process, and whole numbers have no order: the result has the same bits on any number of
/// processes, and the bound of the shares is its bound. It is a sum of `rows` contributions, which the
/// checks against overflow are about.
///
/// Memory: the slice, and two windows of some megabytes: where the program adds up in pieces, the
/// shares are never in memory as a whole. While one window is sent, the next one is added up.
/// \param share  over share_of(batch, ...) of this process.
/// \param rows  number of rows in the whole batch.
/// \throws PluginError if the share is not as long as the slices are together; as Cluster::add_up().
BoundedOnGrid add_shares(BoundedOnGrid share, std::size_t rows, const Slices& slices,
                         Cluster& cluster, Executor& executor);

/// Cluster::gather() of numbers.
/// \param ends  [processes]: where the parts end, in elements.
void gather(std::span<float> values, std::span<const std::size_t> ends, Cluster& cluster);

/// Joins the slices that the processes have released: process 0 gets the whole.
/// Post-processing of releases. All processes call it.
/// \param ends  [processes]: where the slices end.
/// \returns nothing at the other processes.
/// \throws as Cluster::gather().
std::optional<Released> put_together(const Released& slice, std::span<const std::size_t> ends,
                                     Cluster& cluster);

}  // namespace privgrad::core
