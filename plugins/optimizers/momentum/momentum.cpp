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

/// hong:        v <- beta v + (1 - beta) g;  w <- w - learning_rate * v / (1 - beta^t),
///              t = 1, 2, ...: an average of the gradients so far, its weights adding up to 1.
/// heavy_ball:  v <- beta v + g;             w <- w - learning_rate * v.
///
/// State: v and then t, as two float32 of 24 bits each (low, high), so that it stays exact.
class Momentum final : public privgrad::Optimizer,
                       public privgrad::Checkpointable,
                       public privgrad::Coordinatewise,
                       public privgrad::LinearDescent,
                       public privgrad::StepsByRule {
 public:
  explicit Momentum(const privgrad::Params& params)
      : beta_(params.real("beta")), bias_corrected_(params.text("variant") == "hong") {}

  void start(std::size_t parameters) override {
    size_ = parameters;
    state_.assign(size_ + kCounterSize, 0.0f);
  }

  void step(std::span<float> parameters, const privgrad::Released& gradient,
            const privgrad::StepContext& context) override {
    check(parameters, gradient);
    const privgrad::StepRule rule = next_rule(context);
    privgrad::apply(rule, parameters, std::span(state_).first(size_), {}, gradient.values());
  }

  privgrad::StepRule::Kind kind() const override { return privgrad::StepRule::Kind::momentum; }

  privgrad::StepRule next_rule(const privgrad::StepContext& context) override {
    if (!std::isfinite(static_cast<float>(context.learning_rate))) {
      throw privgrad::NumericError("momentum: the learning rate is not finite as a float32");
    }
    const double rate = context.learning_rate / weight_sum(count());
    set_count(count() + 1);
    return {
        .kind = kind(), .rate = rate, .keep = beta_, .take = bias_corrected_ ? 1.0 - beta_ : 1.0};
  }

  Coefficients coefficients(std::uint64_t step) const override {
    return {
        .keep = beta_, .take = bias_corrected_ ? 1.0 - beta_ : 1.0, .rate = 1.0 / weight_sum(step)};
  }

  std::span<const float> state() const override { return state_; }
  Shared shared_state() const override { return {.after = kCounterSize}; }

  void restore(std::span<const float> state) override {
    if (state_.empty() || state.size() != state_.size()) {
      throw privgrad::ConfigError("momentum: the state has " + std::to_string(state.size()) +
                                  " values, expected " + std::to_string(state_.size()));
    }
    const auto is_number = [](float value) { return std::isfinite(value); };
    const auto is_digit = [](float value) {
      return value >= 0.0f && value < static_cast<float>(kDigit) && value == std::floor(value);
    };
    const auto counter = state.last(kCounterSize);
    if (!std::all_of(state.begin(), state.end(), is_number) ||
        !std::all_of(counter.begin(), counter.end(), is_digit)) {
      throw privgrad::ConfigError("momentum: the state holds values that no run can have left");
    }
    std::copy(state.begin(), state.end(), state_.begin());
  }

 private:
  static constexpr std::size_t kCounterSize = 2;
  static constexpr std::uint64_t kDigit = std::uint64_t{1} << 24;  // exact in float32

  /// The sum of the weights of the gradients in v after so many steps and one more: 1 - beta^t.
  double weight_sum(std::uint64_t steps) const {
    return bias_corrected_ ? privgrad::one_minus_power(beta_, steps + 1) : 1.0;
  }

  std::uint64_t count() const {
    return static_cast<std::uint64_t>(state_[size_]) +
           static_cast<std::uint64_t>(state_[size_ + 1]) * kDigit;
  }

  void set_count(std::uint64_t count) {
    state_[size_] = static_cast<float>(count % kDigit);
    const std::uint64_t upper = count / kDigit;
    state_[size_ + 1] = static_cast<float>(upper);
  }

  void check(std::span<const float> parameters, const privgrad::Released& gradient) const {
    if (size_ == 0 || parameters.size() != size_ || gradient.values().size() != size_) {
      throw privgrad::PluginError("momentum: got " + std::to_string(parameters.size()) +
                                  " parameters and " + std::to_string(gradient.values().size()) +
                                  " gradient values, started for " + std::to_string(size_));
    }
    if (!gradient.is_finite()) {
      throw privgrad::NumericError("momentum: the gradient is not finite");
    }
  }

  double beta_;
  bool bias_corrected_;
  std::size_t size_ = 0;
  std::vector<float> state_;  // v, then the count; empty before start()
};

void register_components(privgrad::Registrar& registrar) {
  using namespace privgrad::param;
  registrar.add<privgrad::Optimizer, Momentum>({
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
