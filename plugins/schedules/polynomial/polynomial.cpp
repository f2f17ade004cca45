#include <cmath>

#include "../decay.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// final + (initial - final) (1 - t/(T-1))^power, t = 0 .. T-1: `initial` at the first step,
/// `final` at the last one. A run of one step uses `initial`.
class Polynomial final : public Decay {
 public:
  explicit Polynomial(const Params& params)
      : Decay("polynomial", params), final_(params.real("final")), power_(params.real("power")) {}

  double value(std::uint64_t step) const override {
    if (steps() < 2) return initial();
    const double left = static_cast<double>(steps() - 1 - step) / static_cast<double>(steps() - 1);
    return std::lerp(final_, initial(), std::pow(left, power_));
  }

  static std::vector<ParamSpec> params() {
    return {initial_param(),
            param::real("final", "Value at the last step; without initial, relative to the first.")
                .at_least(0)
                .example(0.1),
            param::real("power", "1 is linear; above 1 the decay is steepest at first.")
                .above(0)
                .defaults_to(1)};
  }

 private:
  double final_;
  double power_;
};

void register_components(Registrar& registrar) {
  registrar.add<Schedule, Polynomial>({
      .name = "polynomial",
      .summary = "From initial at the first step to final at the last, along a power.",
      .reference = "Yu et al. 2019, polynomial decay over the whole run",
      .params = Polynomial::params(),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.polynomial", "0.1.0", "schedule/polynomial", register_components)
