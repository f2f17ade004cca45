// A correct aggregator, for derived classes to break.
#pragma once

#include <cstdint>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/params.hpp"

/// Independent noise of the planned size.
class RightAggregator : public privgrad::Aggregator {
 public:
  explicit RightAggregator(const privgrad::Params&) {}
  void start(const privgrad::AggregationPlan& plan) override {
    multipliers_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
  }
  privgrad::ReleaseRecipe recipe(std::uint64_t step) const override {
    return of(step, multipliers_.at(step));
  }
  static privgrad::ReleaseRecipe of(std::uint64_t node, double multiplier) {
    return {.keep = 0.0, .earlier = {}, .noise = {{.node = node, .multiplier = multiplier}}};
  }

  std::vector<double> multipliers_;
};
