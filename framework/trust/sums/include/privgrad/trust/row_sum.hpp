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

/// Noise of one size, independent in every release.
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

/// The sum of the rows, one of each example, each clipped to the bound, in whole cells of a grid of
/// kExactLevels per bound; its sensitivity is that of exact_sum(). A row that is not finite counts as
/// zero.
/// \param rows  [examples, width].
/// \param bound  bound of a row's L2 norm, finite, > 0.
BoundedOnGrid row_sum(std::vector<float> rows, std::size_t width, double bound, Executor& executor);

/// Makes what one example adds to a statistic: a function of its features and of released values.
/// \param out  [size of the statistic]; if any of it is left unwritten, or not finite, all of it
///   counts as zero.
using ContributionOf = std::function<void(std::span<const float> features, std::span<float> out)>;

/// The same contribution, a piece at a time; never null.
using PiecesOf = std::function<std::unique_ptr<Contribution>(std::span<const float> features)>;

/// Contributions of at least so many numbers are added piece by piece, where that can be done: shorter
/// ones stay in the processor's caches as they are.
inline constexpr std::size_t kLongContribution = std::size_t{1} << 15;

/// The sum of what all examples add to a statistic, each as row_sum() does with a row, made from the
/// features as it is added.
///
/// Sensitivity: that of exact_sum(), kExactLevels cells for each example, given that a contribution
/// depends on its example alone (docs/statistics.md).
/// \param of_row  may be called by several threads at once.
/// \param size  numbers in a contribution, > 0.
/// \param bound  bound of a contribution's L2 norm, finite, > 0.
/// \param check  checks one example's contribution; null: no check.
/// \param pieces_of  empty, if contributions do not come in pieces. The sum is the same whole numbers; may
///   be called by several threads at once.
/// \throws ConfigError for a bound that check_clip_norm() refuses; PluginError as ContributionCheck says,
///   if the example that is looked at has other pieces than its contribution, or if pieces change from
///   one call to the next so that more than the bound would be added.
BoundedOnGrid statistic_sum(const ContributionOf& of_row, const Dataset& data, std::size_t size,
                            double bound, Executor& executor, ContributionCheck* check = nullptr,
                            const PiecesOf& pieces_of = {});

/// The number of examples in each class: an example adds 1, less the last cell, to the number of
/// its class, and nothing to any if its target is no whole number from 0 to classes - 1.
///
/// Sensitivity: that of exact_sum() with a bound of 1, kExactLevels cells, for an example that comes,
/// goes or counts as zero. Exchanged for another one it moves two numbers by 1 each, sqrt(2) of these
/// bounds, which is less than the 2 that every sum is charged as.
/// \param targets  the examples' targets, any floats.
/// \param classes  > 0.
BoundedOnGrid class_sum(std::span<const float> targets, std::size_t classes, Executor& executor);

/// The evaluation of each example by itself: by RowEvaluations if the program has the ability, else
/// one example at a time.
/// \param rows  which examples.
/// \throws PluginError if an example is evaluated otherwise among others than alone: of each 64 the
///   last one is compared.
std::vector<Evaluation> example_evaluations(const Program& program, const Dataset& data,
                                            std::span<const std::uint32_t> rows,
                                            Executor& executor);

/// The loss of each example by itself, as example_evaluations().
std::vector<double> example_losses(const Program& program, const Dataset& data,
                                   std::span<const std::uint32_t> rows, Executor& executor);

/// 0, 1, ..., count - 1.
std::vector<std::uint32_t> all_rows(std::size_t count);

}  // namespace privgrad::core
