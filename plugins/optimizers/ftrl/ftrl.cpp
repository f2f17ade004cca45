#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "../checks.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"

namespace {

using namespace privgrad;

/// Follow the regularized leader, for releases of the sum S_t of all gradients so far:
///
///     v_t = momentum v_{t-1} + S_t,    w_t = w_0 - learning_rate v_t.
///
/// Without momentum, w_t minimises <S_t, w> + ||w - w_0||^2 / (2 learning_rate); without noise,
/// too, this is gradient descent. The optimizer does not accumulate noise: w_t has the noise of one
/// prefix sum, which is small with the aggregator `tree`.
///
/// State: whether a step was made, w_0, v.
class Ftrl final : public Optimizer {
 public:
  explicit Ftrl(const Params& params) : momentum_(params.real("momentum")) {}

  void start(std::size_t parameters) override {
    size_ = parameters;
    has_origin_ = 0;
    origin_.assign(size_, 0.0f);
    velocity_.assign(size_, 0.0f);
  }

  void step(std::span<float> parameters, const Released& sum, const StepContext& context) override {
    optimizers::check_step("ftrl", size_, parameters, sum);
    optimizers::check_rate("ftrl", context.learning_rate);
    if (std::exchange(has_origin_, 1) == 0) std::ranges::copy(parameters, origin_.begin());
    for (std::size_t i = 0; i < size_; ++i) {
      velocity_[i] = static_cast<float>(momentum_ * static_cast<double>(velocity_[i]) +
                                        static_cast<double>(sum.values()[i]));
      parameters[i] = static_cast<float>(static_cast<double>(origin_[i]) -
                                         context.learning_rate * static_cast<double>(velocity_[i]));
    }
  }

  std::vector<StateMember> state() override {
    return {{"has_origin", &has_origin_}, {"origin", &origin_}, {"velocity", &velocity_}};
  }
  bool is_coordinatewise() const override { return true; }
  bool takes_prefix_sums() const override { return true; }

 private:
  double momentum_;
  std::size_t size_ = 0;
  std::uint64_t has_origin_ = 0;          // 1 once a step was made
  std::vector<float> origin_, velocity_;  // w_0, v; empty before start()
};

void register_components(Registrar& registrar) {
  registrar.add<Optimizer, Ftrl>({
      .name = "ftrl",
      .summary =
          "Follows the regularized leader: w <- w_0 - learning_rate * (sum of all gradients); "
          "for aggregators that release prefix sums.",
      .reference = "Kairouz, McMahan, Song, Thakkar, Thakurta and Xu 2021, Algorithm 1 and its "
                   "momentum variant",
      .params = {param::real("momentum",
                             "Share of the last velocity that is kept: v <- momentum v + "
                             "sum, w <- w_0 - learning_rate v.")
                     .at_least(0)
                     .below(1)
                     .defaults_to(0.0)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.ftrl", "0.1.0", "optimizer/ftrl", register_components)
