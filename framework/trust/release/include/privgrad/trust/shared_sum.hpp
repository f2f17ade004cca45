// Divides a batch among the processes of a cluster, and adds up the processes' sums.
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

/// Returns the rows of a batch that a process sums: consecutive parts of about the same size, each
/// row in exactly one of them. Rows are ascending, so a process always reads about the same part of
/// the data set and, if that is in a file, keeps no more of it in memory.
/// \param batch  row numbers in a data set of `rows`, ascending.
/// \param rank  below `processes`.
/// \throws PluginError for a row number that is out of range, out of order or repeated, anywhere in
///   the batch: an example in two shares would contribute twice the bound, and neither sum would
///   show it.
std::span<const std::uint32_t> share_of(std::span<const std::uint32_t> batch, std::size_t rows,
                                        std::size_t rank, std::size_t processes);

/// Adds up the processes' sums of their shares of a batch, and returns this process's slice of the
/// sum. All processes call it.
///
/// Sensitivity: an example is in one share, and adds the same vector to that share's sum as to the
/// sum of a single process. The order of integer additions does not matter: the result has the same
/// bits on any number of processes, and the shares' bound is also its bound. It counts as a sum of
/// `rows` contributions in the overflow checks.
///
/// Memory: the slice, and two windows of some megabytes. If the program adds up in pieces, the
/// shares are never in memory as a whole. One window is sent while the next is added up.
/// \param share  the sum over share_of(batch, ...) of this process.
/// \param rows  number of rows in the whole batch.
/// \throws PluginError if the share's size differs from the total size of all slices; IoError as
///   Cluster::add_up() does.
BoundedOnGrid add_shares(BoundedOnGrid share, std::size_t rows, const Slices& slices,
                         Cluster& cluster, Executor& executor);

/// Calls Cluster::gather() for floats.
/// \param ends  [processes]: the ends of the parts, in elements.
void gather(std::span<float> values, std::span<const std::size_t> ends, Cluster& cluster);

/// Joins the slices that the processes have released: process 0 gets the whole. This is
/// post-processing. All processes call it.
/// \param ends  [processes]: the ends of the slices.
/// \returns nothing at the other processes.
/// \throws IoError as Cluster::gather() does.
std::optional<Released> put_together(const Released& slice, std::span<const std::size_t> ends,
                                     Cluster& cluster);

}  // namespace privgrad::core
