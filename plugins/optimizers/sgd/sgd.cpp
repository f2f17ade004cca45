#include <optional>
#include <span>

#include "../checks.hpp"
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
    optimizers::check_step("sgd", size_, parameters, gradient);
    apply(next_rule(context), parameters, {}, {}, gradient.values());
  }

  std::optional<StepRule::Kind> rule() const override { return StepRule::Kind::descent; }

  StepRule next_rule(const StepContext& context) override {
    optimizers::check_rate("sgd", context.learning_rate);
    return {.kind = StepRule::Kind::descent, .rate = context.learning_rate};
  }

 private:
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
