// Turns a pass's gradients into cells of certified length: the first stage of every ExactClipping
// sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "microbatches.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/joint_release.hpp"

namespace privgrad::core {

/// The scaling and the bounds for turning the gradients of a batch into cells.
struct CellGrid {
  const Clip& clip;
  std::uint64_t count;  // the cells of an example's count
  std::uint64_t most;   // the bound on the length of the gradient's part

  explicit CellGrid(const Clip& the_clip)
      : clip(the_clip),
        count(count_cells(the_clip.count_share)),
        most(whole_root(kExactLevels * kExactLevels - count * count)) {}

  /// \returns whether the example is within the clip norm.
  bool scale(std::span<const double> squared_norms, std::span<double> scales) const {
    const double share = count == 0 ? 1.0 : gradient_share(clip.count_share);
    const bool unclipped = clip_factors(clip, squared_norms, scales);
    for (double& cells : scales) {
      cells *= share / clip.clip_norm * static_cast<double>(kExactLevels);
      if (!std::isfinite(cells)) cells = 0.0;
    }
    return unclipped;
  }

  bool takes(const SquaredLength& length) const {
    return length.high == 0 && length.low <= most * most;
  }
};

/// The contributions of a pass to the sum.
struct CertifiedCells {
  std::span<const std::uint8_t> taken;
  std::int64_t count = 0;  // the sum of the examples' counts, in cells
};

/// Makes and certifies the cells of the examples of a pass.
inline CertifiedCells make_cells(const ExactClipping& program, const Batch& batch,
                                 const CellGrid& grid, SumMemory& memory) {
  const std::size_t groups = program.groups();
  const std::size_t rows = batch.rows();
  const auto norms = resized(memory.squared_norms, rows * groups);
  const auto scales = resized(memory.scales, rows * groups);
  const auto lengths = resized(memory.lengths, rows);
  const auto taken = resized(memory.taken, rows);
  // Norms that a program leaves unwritten count as not finite, and lengths as too long.
  std::fill(norms.begin(), norms.end(), std::numeric_limits<double>::quiet_NaN());
  std::fill(lengths.begin(), lengths.end(), SquaredLength{~std::uint64_t{0}, 0});
  program.backward(batch, *memory.pass, norms);
  std::int64_t balance = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const bool unclipped =
        grid.scale(norms.subspan(i * groups, groups), scales.subspan(i * groups, groups));
    balance += unclipped ? 1 : -1;
  }
  program.make_cells(*memory.pass, scales, grid.most, lengths);
  for (std::size_t i = 0; i < rows; ++i) taken[i] = grid.takes(lengths[i]) ? 1 : 0;
  return {taken, balance * static_cast<std::int64_t>(grid.count)};
}

}  // namespace privgrad::core
