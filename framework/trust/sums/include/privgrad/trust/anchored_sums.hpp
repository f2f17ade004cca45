// Sums of gradient differences between a step's iterate and the epochs' anchors.
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
  const Program* current = nullptr;      ///< Holds the step's iterate; null if the iterate is the
                                         ///< anchor.
  const Program* last_anchor = nullptr;  ///< Holds the previous epoch's anchor; null in the first
                                         ///< epoch.
};

/// Bounds on the L2 norms of the two differences; see UsesGradientDifferences. Finite, >= 0.
struct DifferenceBounds {
  double since_anchor = 0.0, between_anchors = 0.0;
};

/// Returns the sums of one batch for an aggregator that uses gradient differences. The first sums
/// each example's clipped gradient at the anchor. The second sums the clipped gradient at the
/// iterate minus the clipped gradient at the anchor, clipped to bounds.since_anchor. The third,
/// computed if there is a last anchor, sums the clipped gradient at the anchor minus the clipped
/// gradient at the last anchor, clipped to bounds.between_anchors.
///
/// Sensitivity: the first sum has the sensitivity of clipped_sum(). A difference is computed in
/// double from the clipped gradients, and multiplied by a factor that brings its norm to at most
/// the bound, rounding included (as in clip_factors()). The bound is thus enforced; it does not
/// rely on nearby iterates having similar gradients. A gradient that is not finite counts as zero,
/// also in differences.
/// \param clip  without a count share.
/// \throws ConfigError or PluginError as clipped_sum() does.
std::vector<Bounded> anchored_sums(const Iterates& iterates, const Dataset& data,
                                   std::span<const std::uint32_t> batch, const Clip& clip,
                                   const DifferenceBounds& bounds, Executor& executor);

/// The same sums in whole cells, kExactLevels of them per clip.clip_norm. Each clipped gradient is
/// first rounded to the grid (round_to_grid()). Differences are then computed in integers and
/// shortened to n = floor(bound / clip_norm kExactLevels) cells; a difference that is still longer
/// in integer arithmetic is left out.
///
/// Sensitivity: exact for each sum, as for exact_sum(); the l2_bound() of a difference is the
/// length of its n cells.
std::vector<BoundedOnGrid> anchored_exact_sums(const Iterates& iterates, const Dataset& data,
                                               std::span<const std::uint32_t> batch,
                                               const Clip& clip, const DifferenceBounds& bounds,
                                               Executor& executor);

}  // namespace privgrad::core
