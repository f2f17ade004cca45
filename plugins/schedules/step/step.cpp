#include <cmath>

#include "../decay.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// initial * factor^floor(t / every), t = 0, 1, ...
class Step final : public Decay {
 public:
  explicit Step(const Params& params)
      : Decay("step", params),
        factor_(params.real("factor")),
        every_(static_cast<std::uint64_t>(params.integer("every"))) {}

  double value(std::uint64_t step) const override {
    const std::uint64_t reductions = step / every_;
    return initial() * std::pow(factor_, static_cast<double>(reductions));
  }

  static std::vector<ParamSpec> params() {
    return {initial_param(),
            param::real("factor", "What the value is multiplied by at each change.")
                .above(0)
                .example(0.5),
            param::integer("every", "Number of steps between changes.")
                .at_least(1)
                .in_unit("steps")
                .example(10)};
  }

 private:
  double factor_;
  std::uint64_t every_;
};

void register_components(Registrar& registrar) {
  registrar.add<Schedule, Step>({
      .name = "step",
      .summary = "Constant for some steps, then multiplied by a factor, and so on.",
      .reference = "Yu et al. 2019, step decay",
      .params = Step::params(),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.step", "0.1.0", "schedule/step", register_components)
