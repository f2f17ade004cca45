#include "privgrad/step_rule.hpp"

#include <cmath>

#include "privgrad/wide_registers.hpp"

namespace privgrad {

std::size_t state_vectors(StepRule::Kind kind) {
  switch (kind) {
    case StepRule::Kind::descent:
      return 0;
    case StepRule::Kind::momentum:
      return 1;
    case StepRule::Kind::adam:
      return 2;
  }
  return 0;
}

void apply(const StepRule& rule, std::span<float> parameters, std::span<float> first,
           std::span<float> second, std::span<const float> gradient) {
  float* const w = parameters.data();
  float* const v = first.data();
  float* const r = second.data();
  const float* const g = gradient.data();
  const std::size_t size = parameters.size();
  switch (rule.kind) {
    case StepRule::Kind::descent:
      in_wide_registers([=, rate = static_cast<float>(rule.rate)] {
        for (std::size_t i = 0; i < size; ++i) w[i] -= rate * g[i];
      });
      return;
    case StepRule::Kind::momentum:
      in_wide_registers([=, keep = rule.keep, take = rule.take, rate = rule.rate] {
        for (std::size_t i = 0; i < size; ++i) {
          v[i] = static_cast<float>(keep * v[i] + take * g[i]);
          w[i] = static_cast<float>(w[i] - rate * v[i]);
        }
      });
      return;
    case StepRule::Kind::adam:
      in_wide_registers([=] {
        for (std::size_t i = 0; i < size; ++i) {
          const double gradient_i = g[i];
          const double root = r[i];
          v[i] = static_cast<float>(rule.keep * v[i] + rule.take * gradient_i);
          r[i] = static_cast<float>(std::sqrt(rule.keep_squares * (root * root) +
                                              rule.take_squares * (gradient_i * gradient_i)));
          w[i] =
              static_cast<float>(w[i] - rule.rate * v[i] / (rule.root_scale * r[i] + rule.epsilon));
        }
      });
      return;
  }
}

}  // namespace privgrad
