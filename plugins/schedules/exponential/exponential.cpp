#include <cmath>

#include "../decay.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// initial * exp(-rate * t), t = 0, 1, ...
class Exponential final : public Decay {
 public:
  explicit Exponential(const Params& params)
      : Decay("exponential", params), rate_(params.real("rate")) {}

  double value(std::uint64_t step) const override {
    return initial() * std::exp(-rate_ * static_cast<double>(step));
  }

  static std::vector<ParamSpec> params() {
    return {initial_param(),
            param::real("rate", "k in exp(-k t), t counting steps from 0; negative values grow.")
                .in_unit("1/step")
                .example(0.01)};
  }

 private:
  double rate_;
};

void register_components(Registrar& registrar) {
  registrar.add<Schedule, Exponential>({
      .name = "exponential",
      .summary = "initial * exp(-rate * step).",
      .reference = "Yu et al. 2019, exponential decay; Hong, Wang and Zhou 2022, "
                   "sigma_t = sigma_0 exp(-k t)",
      .params = Exponential::params(),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.exponential", "0.1.0", "schedule/exponential", register_components)
