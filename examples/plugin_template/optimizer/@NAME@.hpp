// The @KIND@ @NAME@.
#pragma once

#include <string>
#include <vector>

#include "privgrad/optimizer.hpp"
#include "privgrad/plugin.hpp"

namespace @NAMESPACE@ {

/// Gradient descent with heavy-ball momentum: v <- beta v + g, theta <- theta - eta v.
class @CLASS@ final : public privgrad::Optimizer {
 public:
  static privgrad::ComponentInfo declaration() {
    namespace param = privgrad::param;
    return {
        .name = "@NAME@",
        .summary = "Gradient descent with heavy-ball momentum.",
        .reference = "Polyak 1964, Some methods of speeding up the convergence of iteration methods",
        .params = {param::real("beta", "Share of the last velocity that is kept.")
                       .at_least(0)
                       .below(1)
                       .defaults_to(0.9)},
    };
  }

  explicit @CLASS@(const privgrad::Params& params)
      : beta_(static_cast<float>(params.real("beta"))) {}

  void start(std::size_t parameters) override { velocity_.assign(parameters, 0.0f); }

  void step(std::span<float> parameters, const privgrad::Released& gradient,
            const privgrad::StepContext& context) override {
    const std::span<const float> g = gradient.values();
    // Checked before anything is written, so that a failed step changes nothing.
    if (!gradient.is_finite()) {
      throw privgrad::NumericError("@NAME@: the released gradient of step " +
                                   std::to_string(context.step) + " is not finite");
    }
    const auto rate = static_cast<float>(context.learning_rate);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      velocity_[i] = beta_ * velocity_[i] + g[i];
      parameters[i] -= rate * velocity_[i];
    }
  }

  // Everything that start() sets and steps change, so that runs with this optimizer can be resumed.
  std::vector<privgrad::StateMember> state() override { return {{"velocity", &velocity_}}; }

 private:
  float beta_;
  std::vector<float> velocity_;
};

}  // namespace @NAMESPACE@
