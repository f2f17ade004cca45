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

/// Returns the sum of the per-example gradients of a batch, each clipped as `clip` says.
///
/// In floating point: rows in float32, sums in double. Every addition rounds, so removing one
/// example can change such a sum by more than its contribution; exact_sum() has no such error. This
/// sum exists for comparison (`arithmetic: float`), and its runs list `floating_point` as
/// unaccounted.
///
/// Sensitivity: one example contributes factor_g * gradient_g in each group, with an L2 norm of at
/// most clip.clip_norm over all groups (squared_norm_at_most(), clip_factors()), so the result is a
/// Bounded with this bound. With a count share, the sum is one of the vectors of joint_release.hpp,
/// one element longer, under the same bound.
///
/// An empty batch gives the zero vector. A gradient that is not finite counts as zero. An example
/// listed twice would count twice, so it is refused as a bug of the sampler. Parallel over fixed
/// groups of rows: the result does not depend on the number of threads, bit for bit.
/// \param batch  row numbers in `data`, each at most once.
/// \throws ConfigError for a clip norm that check_clip_norm() refuses; PluginError for a row number
///   that is out of range or repeated, or if the program has other groups than `clip`.
/// \param unit  the privacy unit to which a row belongs.
Bounded clipped_sum(const Program& program, const Dataset& data,
                    std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                    PrivacyUnit unit = PrivacyUnit::example);

/// Returns the sum of the clipped gradients for a run without noise, and so without privacy. It is
/// as fast as exact_sum(), but its grid is chosen so that the longest contribution of each pass
/// just fits: a clip norm far above all gradients (no clipping) thus costs no digits. The grid
/// depends on all rows of a pass, so the sum has no bound: l2_bound() is infinite, and so would be
/// its noise. Programs without ExactClipping add up rows in double.
/// \param most_rows, memory  as for exact_sum().
/// \throws ConfigError or PluginError as clipped_sum() does.
Bounded sum_for_no_noise(const Program& program, const Dataset& data,
                         std::span<const std::uint32_t> batch, const Clip& clip, Executor& executor,
                         std::size_t most_rows = 0, SumMemory* memory = nullptr,
                         PrivacyUnit unit = PrivacyUnit::example);

/// Evaluates a whole data set in fixed groups of rows, like clipped_sum(), and adds up the results.
Evaluation evaluate(const Program& program, const Dataset& data, Executor& executor);

/// Returns the number of parts that evaluate() adds up.
std::size_t evaluation_parts(const Dataset& data);

/// Evaluates some of these parts, for processes that share the work: evaluate() returns total_of()
/// all parts, in order.
/// \pre begin <= end <= evaluation_parts(data)
std::vector<Evaluation> evaluate_parts(const Program& program, const Dataset& data,
                                       std::size_t begin, std::size_t end, Executor& executor);
Evaluation total_of(std::span<const Evaluation> parts);

/// Returns the L2 norm of the gradient of the mean loss over a data set, without clipping or noise,
/// and so only for research. With ExactClipping, the error comes from rounding the gradients to
/// cells: about 2^-13 of the longest gradient, divided by the root of the number of rows. Other
/// programs add rows in double, so only floating-point rounding remains.
/// \returns 0 for no rows.
double mean_gradient_norm(const Program& program, const Dataset& data, Executor& executor);

}  // namespace privgrad::core
