// The @KIND@ @NAME@.
#pragma once

#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/plugin.hpp"

namespace @NAMESPACE@ {

/// Fresh Gaussian noise in every step: released_t = (x_t + l2_bound sigma_t zeta_t) / divisor.
///
/// To let steps share data or noise, set keep and continue earlier steps: the charge follows from
/// the recipe.
class @CLASS@ final : public privgrad::Aggregator {
 public:
  static privgrad::ComponentInfo declaration() {
    return {
        .name = "@NAME@",
        .summary = "Independent Gaussian noise in every step.",
        .reference = "Dwork and Roth 2014, Appendix A (the Gaussian mechanism)",
        .params = {},
        // Behind the parameters, if a release depends on sums or noise of earlier steps:
        // .traits = {std::string(privgrad::trait::correlated)},
    };
  }

  explicit @CLASS@(const privgrad::Params&) {}

  void start(const privgrad::AggregationPlan& plan) override {
    multipliers_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
  }

  privgrad::ReleaseRecipe recipe(std::uint64_t step) const override {
    privgrad::ReleaseRecipe recipe;
    recipe.noise.push_back({.node = step, .multiplier = multipliers_.at(step)});
    return recipe;
  }

 private:
  std::vector<double> multipliers_;
};

}  // namespace @NAMESPACE@
