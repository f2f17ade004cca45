#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "../checks.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// m <- momentum m + (1 - momentum) g;  w <- w - learning_rate * m / ||m||, where g is the release:
/// every step is as long as the learning rate, however large the noise is. If m is zero, it has no
/// direction, and nothing moves.
///
/// In DP-NSGD the momentum is in the aggregator (`tree` with momentum), and not here. With momentum
/// here, other aggregators (`gaussian`, `matrix`) can make the same steps.
///
/// State: m, if momentum is not 0.
///
/// `schedules.learning_rate: auto` is 1/sqrt(n T), for T steps, n = N/B of them in an epoch. This
/// is eta in Tran and Cutkosky's Theorems 6 and 9, which they print for batches of one.
class NormalizedSgd final : public Optimizer {
 public:
  explicit NormalizedSgd(const Params& params) : momentum_(params.real("momentum")) {}

  std::optional<AutoValue> auto_learning_rate(const RunFacts& facts) const override {
    if (!(facts.batch_size > 0.0)) {
      throw ConfigError("is auto, which follows from the sampler's batch_size");
    }
    const double epoch_steps = static_cast<double>(facts.dataset_size) / facts.batch_size;
    return AutoValue{"learning_rate",
                     1.0 / std::sqrt(epoch_steps * static_cast<double>(facts.steps)),
                     "1/sqrt(n T), n = N/B: Tran and Cutkosky 2022, Theorems 6 and 9"};
  }

  void start(std::size_t parameters) override {
    size_ = parameters;
    mean_.assign(momentum_ > 0.0 ? size_ : 0, 0.0f);
  }

  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    optimizers::check_step("normalized_sgd", size_, parameters, gradient);
    optimizers::check_rate("normalized_sgd", context.learning_rate);
    const std::span<const float> m = averaged(gradient.values());
    // In double the square of a float32 neither overflows nor underflows.
    double squares = 0.0;
    for (const float value : m) squares += static_cast<double>(value) * static_cast<double>(value);
    if (squares == 0.0) return;
    const double rate = context.learning_rate / std::sqrt(squares);
    for (std::size_t i = 0; i < m.size(); ++i) {
      parameters[i] =
          static_cast<float>(static_cast<double>(parameters[i]) - rate * static_cast<double>(m[i]));
    }
  }

  std::vector<StateMember> state() override {
    if (mean_.empty()) return {};
    return {{"mean", &mean_}};
  }

 private:
  /// Returns the weighted mean of the releases so far; each step multiplies earlier weights by
  /// `momentum`. Only the direction of the result matters, not its length.
  std::span<const float> averaged(std::span<const float> released) {
    if (mean_.empty()) return released;
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      mean_[i] = static_cast<float>(momentum_ * static_cast<double>(mean_[i]) +
                                    (1.0 - momentum_) * static_cast<double>(released[i]));
    }
    return mean_;
  }

  double momentum_;
  std::size_t size_ = 0;
  std::vector<float> mean_;  // empty without momentum
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Optimizer, NormalizedSgd>({
      .name = "normalized_sgd",
      .summary = "Steps of the learning rate's length: w <- w - learning_rate * m / ||m||.",
      .reference = "Tran and Cutkosky 2022, Algorithm 1; Cutkosky and Mehta 2020",
      .params = {real("momentum",
                      "Share of the last m that is kept: m = momentum m + (1 - momentum) g. Leave "
                      "it at 0 if the aggregator has momentum of its own.")
                     .at_least(0)
                     .below(1)
                     .defaults_to(0.0)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.normalized_sgd", "0.1.0", "optimizer/normalized_sgd", register_components)
