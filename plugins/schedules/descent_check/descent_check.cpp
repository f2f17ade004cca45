#include <cmath>

#include "../adaptive.hpp"
#include "privgrad/plugin.hpp"

namespace {

/// Gives steps more budget once they stop descending: if a released change of the loss is not below
/// -margin, rho = 1 / (2 sigma^2) of all later steps is multiplied by (1 + raise).
///
/// Lee and Kifer detect such steps by a noisy minimum over step sizes including 0, and measure the
/// gradient again instead of making a step that does not descend. Here the step is made, and then
/// the losses before and after it are compared; the optimizer and its step size do not change.
class DescentCheck final : public Adaptive {
 public:
  explicit DescentCheck(const privgrad::Params& params)
      : Adaptive(params),
        raise_(params.real("raise")),
        margin_(params.real("margin")),
        loss_bound_(params.real("loss_bound")),
        noise_(params.real("check_noise_multiplier")) {}

  std::optional<privgrad::Measurement> measurement() const override {
    return privgrad::Measurement{.what = privgrad::Measured::loss_change,
                                 .every = every(),
                                 .loss_bound = loss_bound_,
                                 .noise_multiplier = noise_};
  }

  double next(double current, std::span<const double> measured) const override {
    const bool has_descended = measured.back() < -margin_;
    return has_descended ? current : lowered(current, 1.0 / std::sqrt(1.0 + raise_));
  }

  static std::vector<privgrad::ParamSpec> params() {
    using namespace privgrad::param;
    return {
        initial_param(),
        integer("every", "Number of steps between two checks.")
            .at_least(1)
            .in_unit("steps")
            .defaults_to(10),
        real("raise",
             "The share by which the budget of a step, rho = 1 / (2 sigma^2), grows after a check "
             "without descent. The paper's gamma.")
            .above(0)
            .at_most(100)
            .defaults_to(0.1),
        real("margin", "How much the mean loss has to fall between two checks to count as descent.")
            .at_least(0)
            .in_unit("loss")
            .defaults_to(0),
        real("loss_bound",
             "In a check, an example's loss counts as this if it is larger or not finite. So an "
             "example moves the sum of the changes by at most this (twice this under "
             "replace_one).")
            .above(0)
            .in_unit("loss")
            .example(2),
        real("check_noise_multiplier",
             "Standard deviation of a check's noise in the sum of the changes, in units of "
             "loss_bound. Each check is charged as a step of this noise multiplier: it costs "
             "(noise of a step / this)^2 of what a step does.")
            .above(0)
            .example(20)};
  }

 private:
  double raise_, margin_, loss_bound_, noise_;
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Schedule, DescentCheck>({
      .name = "descent_check",
      .summary = "Noise that is lowered when a private check, which is charged, sees no descent.",
      .reference = "Lee and Kifer 2018 (Concentrated Differentially Private Gradient Descent with "
                   "Adaptive per-Iteration Privacy Budget), DP-AGD, adapted",
      .params = DescentCheck::params(),
      .traits = {std::string(privgrad::trait::adaptive_noise)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.descent_check", "0.1.0", "schedule/descent_check", register_components)
