#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../checks.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/powers.hpp"

namespace {

using namespace privgrad;

/// hong:        v <- beta v + (1 - beta) g;  w <- w - learning_rate * v / (1 - beta^t),
///              t = 1, 2, ...: an average of the gradients so far, with weights that add up to 1.
/// heavy_ball:  v <- beta v + g;             w <- w - learning_rate * v.
///
/// State: v and t.
class Momentum final : public Optimizer {
 public:
  explicit Momentum(const Params& params)
      : beta_(params.real("beta")), bias_corrected_(params.text("variant") == "hong") {}

  void start(std::size_t parameters) override {
    size_ = parameters;
    velocity_.assign(size_, 0.0f);
    steps_ = 0;
  }

  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    optimizers::check_step("momentum", size_, parameters, gradient);
    const StepRule rule = next_rule(context);
    apply(rule, parameters, velocity_, {}, gradient.values());
  }

  std::optional<StepRule::Kind> rule() const override { return StepRule::Kind::momentum; }

  StepRule next_rule(const StepContext& context) override {
    optimizers::check_rate("momentum", context.learning_rate);
    return {.kind = StepRule::Kind::momentum,
            .rate = context.learning_rate / weight_sum(steps_++),
            .keep = beta_,
            .take = bias_corrected_ ? 1.0 - beta_ : 1.0};
  }

  std::vector<StateMember> state() override {
    return {{"velocity", &velocity_}, {"steps", &steps_}};
  }
  bool is_coordinatewise() const override { return true; }

 private:
  /// Returns the divisor of v after t = `steps` + 1 steps: 1 - beta^t, or 1 for heavy_ball.
  double weight_sum(std::uint64_t steps) const {
    return bias_corrected_ ? one_minus_power(beta_, steps + 1) : 1.0;
  }

  double beta_;
  bool bias_corrected_;
  std::size_t size_ = 0;
  std::vector<float> velocity_;  // empty before start()
  std::uint64_t steps_ = 0;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Optimizer, Momentum>({
      .name = "momentum",
      .summary = "Gradient descent with momentum, bias-corrected or heavy ball.",
      .reference = "hong: Hong, Wang and Zhou 2022, Algorithm 1 and Eq. 3; heavy_ball: Polyak 1964",
      .params = {real("beta", "Share of the last velocity that is kept.")
                     .at_least(0)
                     .below(1)
                     .defaults_to(0.9),
                 text("variant",
                      "hong: v = beta v + (1-beta) g, and the step is v / (1-beta^t), a weighted "
                      "mean of the gradients. heavy_ball: v = beta v + g, and the step is v, up to "
                      "1/(1-beta) times as long.")
                     .one_of({"hong", "heavy_ball"})
                     .defaults_to("hong")},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.momentum", "0.1.0", "optimizer/momentum", register_components)
