#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// w <- w - learning_rate * m / ||m||, where m is the release: every step is as long as the
/// learning rate, however large the noise. A release of zero has no direction and moves nothing.
///
/// Momentum must be applied before the norm, so it belongs to the aggregator (`tree` with momentum:
/// DP-NSGD).
///
/// `schedules.learning_rate: auto` is 1/sqrt(n T), with n = N/B steps in an epoch: eta of Tran and
/// Cutkosky's Theorems 6 and 9, whose printed case is batches of one.
class NormalizedSgd final : public Optimizer {
 public:
  explicit NormalizedSgd(const Params&) {}

  std::optional<AutoValue> auto_learning_rate(const RunFacts& facts) const override {
    if (!(facts.batch_size > 0.0)) {
      throw ConfigError("is auto, which follows from the sampler's batch_size");
    }
    const double epoch_steps = static_cast<double>(facts.dataset_size) / facts.batch_size;
    return AutoValue{"learning_rate",
                     1.0 / std::sqrt(epoch_steps * static_cast<double>(facts.steps)),
                     "1/sqrt(n T), n = N/B: Tran and Cutkosky 2022, Theorems 6 and 9"};
  }

  void start(std::size_t parameters) override { size_ = parameters; }

  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    const std::span<const float> m = gradient.values();
    if (parameters.size() != size_ || m.size() != size_) {
      throw PluginError("normalized_sgd: got " + std::to_string(parameters.size()) +
                        " parameters and " + std::to_string(m.size()) +
                        " gradient values, started for " + std::to_string(size_));
    }
    if (!std::isfinite(static_cast<float>(context.learning_rate))) {
      throw NumericError("normalized_sgd: the learning rate is not finite as a float32");
    }
    // In double the square of a float32 neither overflows nor underflows.
    double squares = 0.0;
    for (const float value : m) squares += static_cast<double>(value) * static_cast<double>(value);
    if (!std::isfinite(squares)) {
      throw NumericError("normalized_sgd: the gradient is not finite");
    }
    if (squares == 0.0) return;
    const double rate = context.learning_rate / std::sqrt(squares);
    for (std::size_t i = 0; i < m.size(); ++i) {
      parameters[i] =
          static_cast<float>(static_cast<double>(parameters[i]) - rate * static_cast<double>(m[i]));
    }
  }

 private:
  std::size_t size_ = 0;
};

void register_components(Registrar& registrar) {
  registrar.add<Optimizer, NormalizedSgd>({
      .name = "normalized_sgd",
      .summary = "Steps of the learning rate's length: w <- w - learning_rate * m / ||m||.",
      .reference = "Tran and Cutkosky 2022, Algorithm 1; Cutkosky and Mehta 2020",
      .params = {},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.normalized_sgd", "0.1.0", "optimizer/normalized_sgd", register_components)
