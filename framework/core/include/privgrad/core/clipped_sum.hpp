#pragma once

#include <cstdint>
#include <span>

#include "privgrad/backend.hpp"
#include "privgrad/core/clip_factors.hpp"
#include "privgrad/core/fused_sum.hpp"
#include "privgrad/core/grid.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"

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
/// groups of rows: the result does not depend on the number of threads, bit for bit. \param batch
/// row numbers in `data`, each at most once. \throws PluginError for a row number that is out of
/// range or repeated, or if the program has other groups than `clip`. \param most_rows  examples in
/// memory at once, as for fused_sum(). \param memory  kept from step to step; null: made for this
/// call. \param unit  whose data a row is.
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
/// not on the grid. \param clip  without a count share. \param levels  as for check_grid_levels().
/// \throws as clipped_sum(); ConfigError for other levels or a count share.
BoundedOnGrid clipped_sum_on_grid(const Program& program, const Dataset& data,
                                  std::span<const std::uint32_t> batch, const Clip& clip,
                                  std::uint64_t levels, Executor& executor,
                                  PrivacyUnit unit = PrivacyUnit::example);

/// Sums over a whole data set, in the same fixed groups.
Evaluation evaluate(const Program& program, const Dataset& data, Executor& executor);

}  // namespace privgrad::core
