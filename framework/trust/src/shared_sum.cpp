#include "privgrad/trust/shared_sum.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "gradient_rows.hpp"
#include "trust_base.hpp"

namespace privgrad::core {
namespace {

/// Where the first row, or element, of a part is.
std::size_t begin_of(std::size_t size, std::size_t part, std::size_t parts) {
  return size / parts * part + std::min(part, size % parts);
}

/// Signed and unsigned numbers of one size may stand for each other, and add up alike modulo 2^64.
std::span<std::uint64_t> as_unsigned(std::vector<std::int64_t>& cells) {
  return {reinterpret_cast<std::uint64_t*>(cells.data()), cells.size()};
}

/// All of a sum is process 0's.
std::vector<std::size_t> all_to_the_first(std::size_t size, const Cluster& cluster) {
  return std::vector<std::size_t>(cluster.size(), size);
}

}  // namespace

std::span<const std::uint32_t> share_of(std::span<const std::uint32_t> batch, std::size_t rows,
                                        std::size_t rank, std::size_t processes) {
  check_batch(batch, rows);
  const std::size_t begin = begin_of(batch.size(), rank, processes);
  return batch.subspan(begin, begin_of(batch.size(), rank + 1, processes) - begin);
}

BoundedOnGrid add_shares(BoundedOnGrid share, std::size_t rows, Cluster& cluster) {
  const std::uint64_t levels = share.levels();
  const double l2_bound = share.l2_bound();
  const double cell_width = share.cell_width();
  const PrivacyUnit unit = share.unit();
  std::vector<std::int64_t> cells = TrustBase::take(std::move(share));
  cluster.add_up(as_unsigned(cells), all_to_the_first(cells.size(), cluster));
  return TrustBase::bounded_on_grid(std::move(cells), levels, l2_bound, cell_width, rows, unit);
}

void give_share(BoundedOnGrid share, Cluster& cluster) {
  std::vector<std::int64_t> cells = TrustBase::take(std::move(share));
  cluster.add_up(as_unsigned(cells), all_to_the_first(cells.size(), cluster));
}

}  // namespace privgrad::core
