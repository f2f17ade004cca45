// Clipped sums of vectors other than gradients: statistics, class counts, losses of examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/bounded_statistic.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/trust/contribution_check.hpp"
#include "privgrad/trust/grid.hpp"

namespace privgrad::core {

/// An aggregator whose noise has a constant size and is independent in every release.
class IndependentNoise final : public Aggregator {
 public:
  explicit IndependentNoise(double multiplier) : multiplier_(multiplier) {}
  void start(const AggregationPlan&) override {}
  ReleaseRecipe recipe(std::uint64_t step) const override {
    return {.keep = 0.0,
            .earlier = {},
            .noise = {{.node = step, .multiplier = multiplier_}},
            .scale = 1.0};
  }

 private:
  double multiplier_;
};

/// Returns the sum of the rows, one per example, each clipped to the bound, in whole cells of a
/// grid of kExactLevels per bound; it has the sensitivity of exact_sum(). A row that is not finite
/// counts as zero.
/// \param rows  [examples, width].
/// \param bound  bound of a row's L2 norm, finite, > 0.
BoundedOnGrid row_sum(std::vector<float> rows, std::size_t width, double bound, Executor& executor);

/// Computes an example's contribution to a statistic: a function of its features and of released
/// values.
/// \param out  [size of the statistic]; if an element is left unwritten or is not finite, the whole
///   contribution counts as zero.
using ContributionOf = std::function<void(std::span<const float> features, std::span<float> out)>;

/// Returns the same contribution as ContributionOf, but in pieces; must not return null.

using PiecesOf = std::function<std::unique_ptr<Contribution>(std::span<const float> features)>;

/// Contributions of at least this many numbers are added in pieces, where possible; shorter ones
/// stay in the processor's caches anyway.
inline constexpr std::size_t kLongContribution = std::size_t{1} << 15;

/// Returns the sum of all examples' contributions to a statistic, each clipped and rounded as
/// row_sum() does with a row, and computed from the features when it is added.
///
/// Sensitivity: kExactLevels cells per example, as for exact_sum(), provided that a contribution
/// depends only on its example (docs/statistics.md).
/// \param of_row  may be called by several threads at once.
/// \param size  the number of elements in a contribution, > 0.
/// \param bound  bound of a contribution's L2 norm, finite, > 0.
/// \param check  checks one example's contribution; null: no check.
/// \param pieces_of  empty if contributions do not come in pieces. The sum is the same; may be
///   called by several threads at once.
/// \throws ConfigError for a bound that check_clip_norm() refuses; PluginError as ContributionCheck
///   says, if the pieces of the checked example differ from its contribution, or if pieces change
///   between calls such that more than the bound would be added.
BoundedOnGrid statistic_sum(const ContributionOf& of_row, const Dataset& data, std::size_t size,
                            double bound, Executor& executor, ContributionCheck* check = nullptr,
                            const PiecesOf& pieces_of = {});

/// Returns the number of examples in each class. An example adds 1, less one cell, to the count of
/// its class, or nothing if its target is not an integer from 0 to classes - 1.
///
/// Sensitivity: as exact_sum() with a bound of 1, kExactLevels cells, when an example is added,
/// removed or zeroed. Exchanging an example changes two counts by 1 each, sqrt(2) of these bounds,
/// which is less than the 2 that every sum is charged.
/// \param targets  the examples' targets, any floats.
/// \param classes  > 0.
BoundedOnGrid class_sum(std::span<const float> targets, std::size_t classes, Executor& executor);

/// Returns the evaluation of each single example: by RowEvaluations if the program has this
/// ability, otherwise by evaluating one example at a time.
/// \param rows  the examples to evaluate.
/// \throws PluginError if an example's evaluation depends on the others evaluated with it. One
///   example of each 64 is compared.
std::vector<Evaluation> example_evaluations(const Program& program, const Dataset& data,
                                            std::span<const std::uint32_t> rows,
                                            Executor& executor);

/// Returns the loss of each example, as example_evaluations() computes it.
std::vector<double> example_losses(const Program& program, const Dataset& data,
                                   std::span<const std::uint32_t> rows, Executor& executor);

/// Returns 0, 1, ..., count - 1.
std::vector<std::uint32_t> all_rows(std::size_t count);

}  // namespace privgrad::core
