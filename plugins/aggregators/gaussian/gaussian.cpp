#include <cmath>
#include <string>
#include <vector>

#include "privgrad/aggregator.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

/// Every step releases its own sum with its own noise: node t belongs only to step t, so noise is
/// independent between steps, and each step is one Gaussian mechanism.
class Gaussian final : public Aggregator {
 public:
  explicit Gaussian(const Params&) {}

  void start(const AggregationPlan& plan) override {
    if (plan.noise_multipliers.size() != plan.steps) {
      throw ConfigError("gaussian: got " + std::to_string(plan.noise_multipliers.size()) +
                        " noise multiplier(s) for " + std::to_string(plan.steps) +
                        " step(s), expected one per step");
    }
    for (const double sigma : plan.noise_multipliers) {
      if (!std::isfinite(sigma) || sigma <= 0.0) {
        throw ConfigError("gaussian: noise multiplier " + format_number(sigma) +
                          " is not a finite number above 0");
      }
    }
    noise_multipliers_.assign(plan.noise_multipliers.begin(), plan.noise_multipliers.end());
  }

  ReleaseRecipe recipe(std::uint64_t step) const override {
    return {.keep = 0.0,
            .earlier = {},
            .noise = {{.node = step, .multiplier = noise_multipliers_.at(step)}}};
  }

 private:
  std::vector<double> noise_multipliers_;  // one per step
};

void register_components(Registrar& registrar) {
  registrar.add<Aggregator, Gaussian>({
      .name = "gaussian",
      .summary = "Each step's sum with independent Gaussian noise of the scheduled size.",
      .reference = "Abadi et al. 2016, Algorithm 1; Hong, Wang and Zhou 2022, Algorithm 1",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.gaussian", "0.1.0", "aggregator/gaussian", register_components)
