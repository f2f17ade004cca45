#include <cmath>
#include <span>
#include <string>

#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/step_rule.hpp"

namespace {

/// w <- w - learning_rate * g.
class Sgd final : public privgrad::Optimizer,
                  public privgrad::Checkpointable,
                  public privgrad::Coordinatewise,
                  public privgrad::LinearDescent,
                  public privgrad::StepsByRule {
 public:
  explicit Sgd(const privgrad::Params&) {}

  void start(std::size_t parameters) override { size_ = parameters; }

  /// No step knows anything of another one.
  std::span<const float> state() const override { return {}; }
  Shared shared_state() const override { return {}; }
  void restore(std::span<const float> state) override {
    if (state.empty()) return;
    throw privgrad::ConfigError("sgd: has no state, got one of " + std::to_string(state.size()) +
                                " values");
  }

  void step(std::span<float> parameters, const privgrad::Released& gradient,
            const privgrad::StepContext& context) override {
    check(parameters, gradient);
    privgrad::apply(next_rule(context), parameters, {}, {}, gradient.values());
  }

  privgrad::StepRule::Kind kind() const override { return privgrad::StepRule::Kind::descent; }

  privgrad::StepRule next_rule(const privgrad::StepContext& context) override {
    if (!std::isfinite(static_cast<float>(context.learning_rate))) {
      throw privgrad::NumericError("sgd: the learning rate is not finite as a float32");
    }
    return {.kind = kind(), .rate = context.learning_rate};
  }

  Coefficients coefficients(std::uint64_t) const override { return {}; }

 private:
  void check(std::span<const float> parameters, const privgrad::Released& gradient) const {
    if (parameters.size() != size_ || gradient.values().size() != size_) {
      throw privgrad::PluginError("sgd: got " + std::to_string(parameters.size()) +
                                  " parameters and " + std::to_string(gradient.values().size()) +
                                  " gradient values, started for " + std::to_string(size_));
    }
    if (!gradient.is_finite()) {
      throw privgrad::NumericError("sgd: the gradient is not finite");
    }
  }

  std::size_t size_ = 0;
};

void register_components(privgrad::Registrar& registrar) {
  registrar.add<privgrad::Optimizer, Sgd>({
      .name = "sgd",
      .summary = "Gradient descent: w <- w - learning_rate * g.",
      .reference = "Abadi et al. 2016, Algorithm 1; Hong, Wang and Zhou 2022, Algorithm 1 (GD)",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.sgd", "0.1.0", "optimizer/sgd", register_components)
