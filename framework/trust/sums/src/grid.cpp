#include "privgrad/trust/grid.hpp"

#include <algorithm>
#include <utility>

#include "deferred_cells.hpp"
#include "privgrad/trust/cell_kernels.hpp"

namespace privgrad::core {

bool no_longer_than(std::span<const std::int32_t> cells, std::uint64_t squared_length) {
  return take_squares(cells, squared_length);
}

/// Each square is at most 2^56, so the sum of a block does not overflow, and `left` never goes
/// below zero.
bool take_squares(std::span<const std::int32_t> cells, std::uint64_t& left) {
  static_assert(kMostGridLevels * kMostGridLevels <=
                (std::uint64_t{1} << 63) / CellKernels::kBlock);
  const auto squares_of = cell_kernels().front().squares;
  for (std::size_t begin = 0; begin < cells.size(); begin += CellKernels::kBlock) {
    const std::uint64_t squares =
        squares_of(cells.subspan(begin, std::min(CellKernels::kBlock, cells.size() - begin)));
    if (squares > left) return false;
    left -= squares;
  }
  return true;
}

void round_to_grid(std::span<const float> row, std::span<const ParameterGroup> groups,
                   std::span<const double> factors, double clip_norm, std::uint64_t levels,
                   std::span<std::int32_t> cells) {
  std::fill(cells.begin(), cells.end(), 0);
  bool kept = true;
  for (std::size_t group = 0; kept && group < groups.size(); ++group) {
    if (factors[group] == 0.0) continue;  // 0 * infinity would be NaN
    const std::size_t offset = groups[group].offset;
    const std::size_t size = groups[group].size;
    const auto most = static_cast<double>(levels);
    const double scale = factors[group] / clip_norm * most;
    kept = cell_kernels().front().round(row.subspan(offset, size), scale, most,
                                        cells.subspan(offset, size));
  }
  if (!kept || !no_longer_than(cells, levels * levels)) std::fill(cells.begin(), cells.end(), 0);
}

BoundedOnGrid::BoundedOnGrid(std::vector<std::int64_t> cells,
                             std::unique_ptr<DeferredCells> deferred, std::size_t size,
                             std::uint64_t levels, double l2_bound, double cell_width,
                             std::size_t rows, PrivacyUnit unit)
    : cells_(std::move(cells)),
      deferred_(std::move(deferred)),
      size_(size),
      levels_(levels),
      l2_bound_(l2_bound),
      cell_width_(cell_width),
      rows_(rows),
      unit_(unit) {}

BoundedOnGrid::BoundedOnGrid(BoundedOnGrid&&) noexcept = default;
BoundedOnGrid& BoundedOnGrid::operator=(BoundedOnGrid&&) noexcept = default;
BoundedOnGrid::~BoundedOnGrid() = default;

}  // namespace privgrad::core
