#pragma once

#include <cstdint>
#include <span>

#include "privgrad/backend.hpp"
#include "privgrad/core/fused_sum.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// The largest factor f <= 1 (up to a few units in the last place) such that the vector f * row,
/// computed in double, has an L2 norm of at most `bound`: never above it, rounding included. 0 for
/// a row that holds a NaN or an infinity: such a gradient counts as zero.
///
/// Why it holds: the computed sum of n squares is off by at most n units of 2^-53 (relative; Higham
/// 2002, section 3.1; squares of floats are exact in double), the square root, the division and the
/// n products by one unit each. The divisor is enlarged by all of them together.
double clip_factor(std::span<const float> row, double bound);

/// \returns a factor f <= 1 such that f times a gradient with these squared norms, each no less
/// than the true one, has an L2 norm of at most `bound`: never above it, rounding included. 0 where
/// a norm is not finite. The results of float32 products that fall below the normal range may be
/// off by 2^-149 each, which the bound makes room for where it is small enough to notice.
double clip_factor_of_groups(std::span<const double> squared_norms, double bound);

/// The sum of the per-example gradients of a batch, each clipped to L2 norm `clip_norm`.
///
/// A program with FusedClipping gives norms and scaled sums (fused_sum), any other rows.
///
/// Sensitivity: one example contributes f * row with norm <= clip_norm (clip_factor), so the result
/// is Bounded by clip_norm. An empty batch gives the zero vector. An example listed twice counts
/// twice, and is therefore refused as a bug of the sampler. Parallel over fixed groups of rows: the
/// result does not depend on the number of threads, bit for bit. \param batch  row numbers in
/// `data`, each at most once. \throws PluginError for a row number that is out of range or
/// repeated. \param most_rows  examples in memory at once, as for fused_sum(). \param memory
/// kept from step to step; null: made for this call.
Bounded clipped_sum(const Program& program, const Dataset& data,
                    std::span<const std::uint32_t> batch, double clip_norm, Executor& executor,
                    std::size_t most_rows = 0, SumMemory* memory = nullptr);

/// Sums over a whole data set, in the same fixed groups.
Evaluation evaluate(const Program& program, const Dataset& data, Executor& executor);

}  // namespace privgrad::core
