// The clipped sum of a batch in floating point, sums without noise, and evaluation of a data set.
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

namespace privgrad::core {

/// The sum of the per-example gradients of a batch, each clipped as `clip` says.
///
/// In floating point: rows in float32, sums in double. Such a sum can move by more than one
/// contribution when one is taken away, since every addition rounds; exact_sum() cannot. It is there
/// to be compared with (`arithmetic: float`), and `floating_point` is listed as unaccounted then.
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
/// \param unit  whose data a row is.
Bounded clipped_sum(const Program& program, const Dataset& data,
                    std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                    PrivacyUnit unit = PrivacyUnit::example);

/// The sum of the clipped gradients for a run without noise, which protects nobody: as fast as
/// exact_sum(), and not on the grid of the clip norm but on one that the longest contribution of each
/// pass just fits, so that a clip norm far above all gradients (no clipping) costs no digits. Where
/// that is depends on all rows of a pass: the sum has no bound, and says so (l2_bound() is infinite,
/// and so would be its noise). Programs without ExactClipping add up rows in double.
/// \param most_rows, memory  as for exact_sum().
/// \throws as clipped_sum().
Bounded sum_for_no_noise(const Program& program, const Dataset& data,
                         std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                         std::size_t most_rows = 0, SumMemory* memory = nullptr,
                         PrivacyUnit unit = PrivacyUnit::example);

/// Sums over a whole data set, in the same fixed groups.
Evaluation evaluate(const Program& program, const Dataset& data, Executor& executor);

/// The number of parts that evaluate() adds up.
std::size_t evaluation_parts(const Dataset& data);

/// Some of these parts, for processes that share the work: evaluate() is total_of() all parts, in
/// order.
/// \pre begin <= end <= evaluation_parts(data)
std::vector<Evaluation> evaluate_parts(const Program& program, const Dataset& data,
                                       std::size_t begin, std::size_t end, Executor& executor);
Evaluation total_of(std::span<const Evaluation> parts);

/// The L2 norm of the gradient of the mean loss over a data set: no clipping, no noise, and so for
/// research alone. Of a program with ExactClipping within what its cells are of the gradients, about
/// 2^-13 of the longest one over the root of their number; of another by rows, within rounding.
/// \returns 0 for no rows.
double mean_gradient_norm(const Program& program, const Dataset& data, Executor& executor);

}  // namespace privgrad::core
