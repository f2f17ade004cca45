#include <cmath>
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

/// m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2;
/// w <- w - learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps),  t = 1, 2, ...
///
/// The gradient is a release, including its noise, so the adaptation is post-processing. (The noise
/// also enters v, and is not corrected for.)
///
/// v is stored as its square root r, because float32 covers the range of r but not the range of
/// g^2. State: m, r and t.
class Adam final : public Optimizer {
 public:
  explicit Adam(const Params& params)
      : beta1_(params.real("beta1")), beta2_(params.real("beta2")), eps_(params.real("eps")) {}

  void start(std::size_t parameters) override {
    size_ = parameters;
    means_.assign(size_, 0.0f);
    roots_.assign(size_, 0.0f);
    steps_ = 0;
  }

  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    optimizers::check_step("adam", size_, parameters, gradient);
    const StepRule rule = next_rule(context);
    apply(rule, parameters, means_, roots_, gradient.values());
  }

  std::optional<StepRule::Kind> rule() const override { return StepRule::Kind::adam; }

  StepRule next_rule(const StepContext& context) override {
    optimizers::check_rate("adam", context.learning_rate);
    ++steps_;
    const double weights1 = one_minus_power(beta1_, steps_);
    const double weights2 = one_minus_power(beta2_, steps_);
    return {.kind = StepRule::Kind::adam,
            .rate = context.learning_rate / weights1,
            .keep = beta1_,
            .take = 1.0 - beta1_,
            .keep_squares = beta2_,
            .take_squares = 1.0 - beta2_,
            .root_scale = 1.0 / std::sqrt(weights2),
            .epsilon = eps_};
  }

  std::vector<StateMember> state() override {
    return {{"means", &means_}, {"roots", &roots_}, {"steps", &steps_}};
  }
  bool is_coordinatewise() const override { return true; }

 private:
  double beta1_;
  double beta2_;
  double eps_;
  std::size_t size_ = 0;
  std::vector<float> means_, roots_;  // m, r; empty before start()
  std::uint64_t steps_ = 0;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Optimizer, Adam>({
      .name = "adam",
      .summary = "Adam on released gradients: a step per coordinate, scaled by its own size.",
      .reference = "Kingma and Ba 2015, Algorithm 1",
      .params =
          {real("beta1", "Share of the mean that is kept.").at_least(0).below(1).defaults_to(0.9),
           real("beta2", "Share of the mean square that is kept.")
               .at_least(0)
               .below(1)
               .defaults_to(0.999),
           real("eps", "Added to the root mean square, in units of the gradient.")
               .above(0)
               .defaults_to(1e-8)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.adam", "0.1.0", "optimizer/adam", register_components)
