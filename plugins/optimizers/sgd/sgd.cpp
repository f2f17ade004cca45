#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// w <- w - learning_rate * g.
class Sgd final : public Optimizer {
 public:
  explicit Sgd(const Params&) {}

  void start(std::size_t parameters) override { size_ = parameters; }

  bool is_coordinatewise() const override { return true; }

  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    check(parameters, gradient);
    apply(next_rule(context), parameters, {}, {}, gradient.values());
  }

  std::optional<StepRule::Kind> rule() const override { return StepRule::Kind::descent; }

  StepRule next_rule(const StepContext& context) override {
    if (!std::isfinite(static_cast<float>(context.learning_rate))) {
      throw NumericError("sgd: the learning rate is not finite as a float32");
    }
    return {.kind = StepRule::Kind::descent, .rate = context.learning_rate};
  }

 private:
  void check(std::span<const float> parameters, const Released& gradient) const {
    if (parameters.size() != size_ || gradient.values().size() != size_) {
      throw PluginError("sgd: got " + std::to_string(parameters.size()) + " parameters and " +
                        std::to_string(gradient.values().size()) +
                        " gradient values, started for " + std::to_string(size_));
    }
    if (!gradient.is_finite()) {
      throw NumericError("sgd: the gradient is not finite");
    }
  }

  std::size_t size_ = 0;
};

void register_components(Registrar& registrar) {
  registrar.add<Optimizer, Sgd>({
      .name = "sgd",
      .summary = "Gradient descent: w <- w - learning_rate * g.",
      .reference = "Abadi et al. 2016, Algorithm 1; Hong, Wang and Zhou 2022, Algorithm 1 (GD)",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.sgd", "0.1.0", "optimizer/sgd", register_components)
