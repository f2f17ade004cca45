#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/powers.hpp"
#include "privgrad/step_rule.hpp"

namespace {

/// m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2;
/// w <- w - learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps),  t = 1, 2, ...
///
/// The gradient is a released one, noise included, so the adaptation is post-processing. (Its noise
/// is part of v: no correction for that is made.)
///
/// v is kept as its square root r, because float32 covers the range of r but not that of g^2.
/// State: m, r, and then t, as two float32 of 24 bits each (low, high), so that it stays exact.
class Adam final : public privgrad::Optimizer,
                   public privgrad::Checkpointable,
                   public privgrad::Coordinatewise,
                   public privgrad::StepsByRule {
 public:
  explicit Adam(const privgrad::Params& params)
      : beta1_(params.real("beta1")), beta2_(params.real("beta2")), eps_(params.real("eps")) {}

  void start(std::size_t parameters) override {
    size_ = parameters;
    state_.assign(2 * size_ + kCounterSize, 0.0f);
  }

  void step(std::span<float> parameters, const privgrad::Released& gradient,
            const privgrad::StepContext& context) override {
    check(parameters, gradient);
    const privgrad::StepRule rule = next_rule(context);
    const auto state = std::span(state_);
    privgrad::apply(rule, parameters, state.first(size_), state.subspan(size_, size_),
                    gradient.values());
  }

  privgrad::StepRule::Kind kind() const override { return privgrad::StepRule::Kind::adam; }

  privgrad::StepRule next_rule(const privgrad::StepContext& context) override {
    if (!std::isfinite(static_cast<float>(context.learning_rate))) {
      throw privgrad::NumericError("adam: the learning rate is not finite as a float32");
    }
    const double weights1 = privgrad::one_minus_power(beta1_, count() + 1);
    const double weights2 = privgrad::one_minus_power(beta2_, count() + 1);
    set_count(count() + 1);
    return {.kind = kind(),
            .rate = context.learning_rate / weights1,
            .keep = beta1_,
            .take = 1.0 - beta1_,
            .keep_squares = beta2_,
            .take_squares = 1.0 - beta2_,
            .root_scale = 1.0 / std::sqrt(weights2),
            .epsilon = eps_};
  }

  std::span<const float> state() const override { return state_; }
  Shared shared_state() const override { return {.after = kCounterSize}; }

  void restore(std::span<const float> state) override {
    if (state_.empty() || state.size() != state_.size()) {
      throw privgrad::ConfigError("adam: the state has " + std::to_string(state.size()) +
                                  " values, expected " + std::to_string(state_.size()));
    }
    const auto is_number = [](float value) { return std::isfinite(value); };
    const auto is_digit = [](float value) {
      return value >= 0.0f && value < static_cast<float>(kDigit) && value == std::floor(value);
    };
    const auto counter = state.last(kCounterSize);
    if (!std::all_of(state.begin(), state.end(), is_number) ||
        !std::all_of(counter.begin(), counter.end(), is_digit)) {
      throw privgrad::ConfigError("adam: the state holds values that no run can have left");
    }
    std::copy(state.begin(), state.end(), state_.begin());
  }

 private:
  static constexpr std::size_t kCounterSize = 2;
  static constexpr std::uint64_t kDigit = std::uint64_t{1} << 24;  // exact in float32

  std::uint64_t count() const {
    return static_cast<std::uint64_t>(state_[2 * size_]) +
           static_cast<std::uint64_t>(state_[2 * size_ + 1]) * kDigit;
  }

  void set_count(std::uint64_t count) {
    state_[2 * size_] = static_cast<float>(count % kDigit);
    const std::uint64_t upper = count / kDigit;
    state_[2 * size_ + 1] = static_cast<float>(upper);
  }

  void check(std::span<const float> parameters, const privgrad::Released& gradient) const {
    if (size_ == 0 || parameters.size() != size_ || gradient.values().size() != size_) {
      throw privgrad::PluginError("adam: got " + std::to_string(parameters.size()) +
                                  " parameters and " + std::to_string(gradient.values().size()) +
                                  " gradient values, started for " + std::to_string(size_));
    }
    if (!gradient.is_finite()) {
      throw privgrad::NumericError("adam: the gradient is not finite");
    }
  }

  double beta1_;
  double beta2_;
  double eps_;
  std::size_t size_ = 0;
  std::vector<float> state_;  // m, r, then the count; empty before start()
};

void register_components(privgrad::Registrar& registrar) {
  using namespace privgrad::param;
  registrar.add<privgrad::Optimizer, Adam>({
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
