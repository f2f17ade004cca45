#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/executor.hpp"
#include "privgrad/privacy.hpp"
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
            .scale = 1.0,
            .grid_levels = 0};
  }

 private:
  double multiplier_;
};

/// The sum of the rows, one of each example, each clipped to the bound, in whole cells of a grid of
/// kExactLevels per bound; its sensitivity is that of exact_sum(). A row that is not finite counts as
/// zero.
/// \param rows  [examples, width].
/// \param bound  of a row's L2 norm, finite, > 0.
BoundedOnGrid row_sum(std::vector<float> rows, std::size_t width, double bound, Executor& executor);

/// The loss of each example by itself.
/// \param rows  which examples.
std::vector<double> example_losses(const Program& program, const Dataset& data,
                                   std::span<const std::uint32_t> rows, Executor& executor);

/// 0, 1, ..., count - 1.
std::vector<std::uint32_t> all_rows(std::size_t count);

}  // namespace privgrad::core
