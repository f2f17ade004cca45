#include <span>
#include <string>
#include <vector>

#include "../checks.hpp"
#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/wide_registers.hpp"

namespace {

using namespace privgrad;

/// w <- w - learning_rate * (g + mu (w - a)), where a is the model at the beginning of the round:
/// the last term pulls a client back towards a. Without rounds there is no a, and the term is 0.
class FedProx final : public Optimizer {
 public:
  explicit FedProx(const Params& params) : mu_(params.real("mu")) {}

  void start(std::size_t parameters) override {
    size_ = parameters;
    anchor_.clear();
  }

  void anchor(std::span<const float> parameters) override {
    if (parameters.size() != size_) {
      throw PluginError("fed_prox: got an anchor of " + std::to_string(parameters.size()) +
                        " parameters, started for " + std::to_string(size_));
    }
    anchor_.assign(parameters.begin(), parameters.end());
  }

  void step(std::span<float> parameters, const Released& gradient,
            const StepContext& context) override {
    optimizers::check_step("fed_prox", size_, parameters, gradient);
    optimizers::check_rate("fed_prox", context.learning_rate);
    const auto rate = static_cast<float>(context.learning_rate);
    const auto pull = static_cast<float>(mu_);
    float* w = parameters.data();
    const float* g = gradient.values().data();
    if (anchor_.empty()) {
      in_wide_registers([=, size = size_] {
        for (std::size_t i = 0; i < size; ++i) w[i] -= rate * g[i];
      });
      return;
    }
    const float* a = anchor_.data();
    in_wide_registers([=, size = size_] {
      for (std::size_t i = 0; i < size; ++i) w[i] -= rate * (g[i] + pull * (w[i] - a[i]));
    });
  }

  bool is_coordinatewise() const override { return true; }

 private:
  double mu_;
  std::size_t size_ = 0;
  std::vector<float> anchor_;
};

void register_components(Registrar& registrar) {
  using namespace param;
  registrar.add<Optimizer, FedProx>({
      .name = "fed_prox",
      .summary = "Gradient descent with a pull to the model that the round began with; without "
                 "rounds plain gradient descent.",
      .reference = "Li et al. 2020, Federated Optimization in Heterogeneous Networks, Algorithm 2",
      .params = {real("mu", "Strength of the pull; 0 is none.")
                     .at_least(0)
                     .at_most(1e30)
                     .defaults_to(0.01)},
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.fed_prox", "0.1.0", "optimizer/fed_prox", register_components)
