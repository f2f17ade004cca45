#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/clip_factors.hpp"
#include "privgrad/trust/fused_sum.hpp"
#include "privgrad/trust/grid.hpp"

namespace privgrad::core {

/// The sum of the per-example gradients of a batch, each clipped as `clip` says.
///
/// A program with FusedClipping gives norms and scaled sums (fused_sum), any other rows.
///
/// Sensitivity: one example contributes factor_g * gradient_g in each group, with an L2 norm of at
/// most clip.clip_norm over all groups (squared_norm_at_most(), clip_factors()), so the result is
/// Bounded by it. With a count share, the sum is one of the vectors
/// of joint_release.hpp, one element longer, under the same bound.
///
/// An empty batch gives the zero vector. A gradient that is not finite counts as zero. An example
/// listed twice counts twice, and is therefore refused as a bug of the sampler. Parallel over fixed
/// groups of rows: the result does not depend on the number of threads, bit for bit.
/// \param batch  row numbers in `data`, each at most once.
/// \throws ConfigError for a clip norm that check_clip_norm() refuses; PluginError for a row number
///   that is out of range or repeated, or if the program has other groups than `clip`.
/// \param most_rows  examples in memory at once, as for fused_sum().
/// \param memory  kept from step to step; null: made for this call.
/// \param unit  whose data a row is.
Bounded clipped_sum(const Program& program, const Dataset& data,
                    std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                    std::size_t most_rows = 0, SumMemory* memory = nullptr,
                    PrivacyUnit unit = PrivacyUnit::example);

/// The same sum in whole cells of a grid, `levels` of them per clip.clip_norm: each contribution is
/// clipped and rounded before it is added (round_to_grid()), and integers are added up exactly.
///
/// Sensitivity: exactly `levels` cells per example, rounding included; no error is left out.
///
/// Takes rows of gradients, also from a program with FusedClipping: what such a program adds up is
/// not on the grid.
/// \param clip  without a count share.
/// \param levels  as for check_grid_levels().
/// \throws as clipped_sum(); ConfigError for other levels or a count share.
BoundedOnGrid clipped_sum_on_grid(const Program& program, const Dataset& data,
                                  std::span<const std::uint32_t> batch, const Clip& clip,
                                  std::uint64_t levels, Executor& executor,
                                  PrivacyUnit unit = PrivacyUnit::example);

/// What anchored_sums() computes gradients at.
struct Iterates {
  const Program& anchor;                 ///< Holds the epoch's anchor.
  const Program* current = nullptr;      ///< Holds the step's iterate; null: it is the anchor.
  const Program* last_anchor = nullptr;  ///< Holds that of the epoch before; null: there is none.
};

/// How long the differences may be; see UsesGradientDifferences. Finite, >= 0.
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

/// Sums over a whole data set, in the same fixed groups.
Evaluation evaluate(const Program& program, const Dataset& data, Executor& executor);

/// The L2 norm of the gradient of the mean loss over a data set: no clipping, no noise, exact but
/// for rounding, and so for research alone.
/// \returns 0 for no rows.
double mean_gradient_norm(const Program& program, const Dataset& data, Executor& executor);

}  // namespace privgrad::core
