#include "../adaptive.hpp"
#include "privgrad/plugin.hpp"

namespace {

/// Lowers the noise if a metric on the public test examples improves by no more than a threshold
/// between two measurements.
class Validation final : public Adaptive {
 public:
  explicit Validation(const privgrad::Params& params)
      : Adaptive(params),
        of_loss_(params.text("metric") == "loss"),
        threshold_(params.real("threshold")),
        factor_(params.real("factor")) {}

  std::optional<privgrad::Measurement> measurement() const override {
    return privgrad::Measurement{.what = of_loss_ ? privgrad::Measured::validation_loss
                                                  : privgrad::Measured::validation_accuracy,
                                 .every = every(),
                                 .loss_bound = 0.0,
                                 .noise_multiplier = 0.0};
  }

  double next(double current, std::span<const double> measured) const override {
    if (measured.size() < 2) return current;  // no step was made yet
    const double change = measured.back() - measured[measured.size() - 2];
    const double improvement = of_loss_ ? -change : change;
    // A loss that is not finite is not an improvement.
    return improvement > threshold_ ? current : lowered(current, factor_);
  }

  static std::vector<privgrad::ParamSpec> params() {
    using namespace privgrad::param;
    return {
        initial_param(),
        integer("every", "Number of steps between two measurements; the paper's period.")
            .at_least(1)
            .in_unit("steps")
            .defaults_to(10),
        text("metric", "The metric that must improve, on the test examples, which must be public.")
            .one_of({"accuracy", "loss"})
            .defaults_to("accuracy"),
        real("threshold",
             "How much it must improve between two measurements to keep the noise: a share of the "
             "examples, or of the loss, in its unit.")
            .at_least(0)
            .defaults_to(0.01),
        real("factor",
             "Factor that the noise multiplier is multiplied by after too small an improvement.")
            .above(0)
            .below(1)
            .defaults_to(0.7)};
  }

 private:
  bool of_loss_;
  double threshold_, factor_;
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Schedule, Validation>({
      .name = "validation",
      .summary = "Noise that is lowered when public test examples show no more progress.",
      .reference = "Yu, Liu, Pu, Gursoy and Truex 2019 (Differentially Private Model Publishing "
                   "for Deep Learning), validation-based decay",
      .params = Validation::params(),
      .traits = {std::string(privgrad::trait::adaptive_noise)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.validation", "0.1.0", "schedule/validation", register_components)
