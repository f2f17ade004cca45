// The sums for aggregators that use gradient differences: at the iterate, and at epochs' anchors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/exact_sum.hpp"
#include "privgrad/trust/grid.hpp"

namespace privgrad::core {

/// The programs that hold the iterates at which anchored_sums() computes gradients.
struct Iterates {
  const Program& anchor;                 ///< Holds the epoch's anchor.
  const Program* current = nullptr;      ///< Holds the step's iterate; null: it is the anchor.
  const Program* last_anchor = nullptr;  ///< Holds the epoch before's anchor; null: none yet.
};

/// Bounds on the L2 norm of the differences; see UsesGradientDifferences. Finite, >= 0.
struct DifferenceBounds {
  double since_anchor = 0.0, between_anchors = 0.0;
};

/// The sums of an aggregator that uses differences of gradients, of one batch: of each example's
/// clipped gradient at the anchor; of its clipped gradient at the iterate minus that at the anchor,
/// clipped to bounds.since_anchor; and, if there is a last anchor, of that at the anchor minus that
/// at the last one, clipped to bounds.between_anchors.
///
/// Sensitivity: the first sum is that of clipped_sum(). A difference is computed in double from the
/// clipped gradients, and what is added is that vector times a factor which brings its norm to the
/// bound or below, rounding included (as clip_factors()): that gradients change little between near
/// iterates is enforced, not assumed. A gradient that is not finite counts as zero, in differences
/// too.
/// \param clip  without a count share.
/// \throws as clipped_sum().
std::vector<Bounded> anchored_sums(const Iterates& iterates, const Dataset& data,
                                   std::span<const std::uint32_t> batch, const Clip& clip,
                                   const DifferenceBounds& bounds, Executor& executor);

/// The same sums in whole cells, kExactLevels of them per clip.clip_norm: each clipped gradient is
/// rounded to the grid first (round_to_grid()), differences are taken and clipped in whole numbers,
/// and a difference that is longer than floor(bound / clip_norm kExactLevels) cells is left out.
///
/// Sensitivity: exact, as exact_sum() has it, for each of the sums; l2_bound() of a difference is
/// that whole number of cells.
std::vector<BoundedOnGrid> anchored_exact_sums(const Iterates& iterates, const Dataset& data,
                                               std::span<const std::uint32_t> batch,
                                               const Clip& clip, const DifferenceBounds& bounds,
                                               Executor& executor);

}  // namespace privgrad::core
