#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/value.hpp"

namespace {

/// Every step releases its own sum on a grid of integers, with discrete Gaussian noise of its own:
/// node t belongs to step t alone. Rounding, noise and charge are the core's.
///
/// The default grid has 2^24 cells per clip norm, the resolution of float32, which gradients come
/// in: rounding to it changes a clipped gradient of a million parameters by less than 6e-5 of the
/// clip norm. A coarser one has no advantage but where its integers are to be sent.
class DiscreteGaussian final : public privgrad::Aggregator {
 public:
  explicit DiscreteGaussian(const privgrad::Params& params)
      : grid_levels_(static_cast<std::uint64_t>(params.integer("grid_levels"))) {}

  void start(const privgrad::AggregationPlan& plan) override {
    if (plan.noise_multipliers.size() != plan.steps) {
      throw privgrad::ConfigError("discrete_gaussian: got " +
                                  std::to_string(plan.noise_multipliers.size()) +
                                  " noise multiplier(s) for " + std::to_string(plan.steps) +
                                  " step(s), expected one per step");
    }
    for (const double sigma : plan.noise_multipliers) {
      if (!std::isfinite(sigma) || sigma <= 0.0) {
        throw privgrad::ConfigError("discrete_gaussian: noise multiplier " +
                                    privgrad::format_number(sigma) +
                                    " is not a finite number above 0");
      }
    }
    noise_multipliers_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
  }

  privgrad::ReleaseRecipe recipe(std::uint64_t step) const override {
    return {.keep = 0.0,
            .earlier = {},
            .noise = {{.node = step, .multiplier = noise_multipliers_.at(step)}},
            .grid_levels = grid_levels_};
  }

 private:
  std::uint64_t grid_levels_;
  std::vector<double> noise_multipliers_;  // one per step
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Aggregator, DiscreteGaussian>({
      .name = "discrete_gaussian",
      .summary =
          "Each step's sum on an integer grid of its own, with discrete Gaussian noise, drawn "
          "in whole numbers.",
      .reference = "Canonne, Kamath and Steinke 2020",
      .params = {privgrad::param::integer(
                     "grid_levels",
                     "Cells of the grid per clip norm. Gradients are rounded towards zero; with d "
                     "parameters, many more than sqrt(d) levels leave them nearly as they are.")
                     .at_least(1)
                     .at_most(std::int64_t{1} << 28)
                     .defaults_to(std::int64_t{1} << 24)},
      .traits = {std::string(privgrad::trait::quantized)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.discrete_gaussian", "0.1.0", "aggregator/discrete_gaussian",
                register_components)
