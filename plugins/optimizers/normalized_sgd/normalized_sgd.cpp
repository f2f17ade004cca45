#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// m <- momentum m + (1 - momentum) g;  w <- w - learning_rate * m / ||m||, where g is the release:
/// every step is as long as the learning rate, however large the noise. An m of zero has no
/// direction and moves nothing.
///
/// DP-NSGD takes the momentum from its aggregator, `tree` with momentum, and leaves it at 0 here;
/// with momentum here, the other noises (`gaussian`, `matrix`) meet the same steps.
///
/// State: m, where momentum is not 0.
///
/// `schedules.learning_rate: auto` is 1/sqrt(n T), with n = N/B steps in an epoch: eta of Tran and
/// Cutkosky's Theorems 6 and 9, whose printed case is batches of one.
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
    const std::span<const float> released = gradient.values();
    if (parameters.size() != size_ || released.size() != size_) {
      throw PluginError("normalized_sgd: got " + std::to_string(parameters.size()) +
                        " parameters and " + std::to_string(released.size()) +
                        " gradient values, started for " + std::to_string(size_));
    }
    if (!std::isfinite(static_cast<float>(context.learning_rate))) {
      throw NumericError("normalized_sgd: the learning rate is not finite as a float32");
    }
    if (!gradient.is_finite()) throw NumericError("normalized_sgd: the gradient is not finite");
    const std::span<const float> m = averaged(released);
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
  /// The weighted mean of the releases so far, of which each step keeps `momentum`; its length does
  /// not matter.
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
