// An aggregator with recipes that a test writes, for tests of releases and their accounting.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "privgrad/aggregator.hpp"

/// An aggregator whose recipes the test writes.
class ScriptedAggregator final : public privgrad::Aggregator {
 public:
  explicit ScriptedAggregator(std::function<privgrad::ReleaseRecipe(std::uint64_t)> recipe)
      : recipe_(std::move(recipe)) {}
  void start(const privgrad::AggregationPlan&) override {}
  privgrad::ReleaseRecipe recipe(std::uint64_t step) const override { return recipe_(step); }

 private:
  std::function<privgrad::ReleaseRecipe(std::uint64_t)> recipe_;
};

/// Returns independent noise of a constant size, like that of the aggregator `gaussian`.
inline ScriptedAggregator independent_noise(double multiplier) {
  return ScriptedAggregator([multiplier](std::uint64_t step) {
    return privgrad::ReleaseRecipe{
        .keep = 0.0, .earlier = {}, .noise = {{.node = step, .multiplier = multiplier}}};
  });
}
