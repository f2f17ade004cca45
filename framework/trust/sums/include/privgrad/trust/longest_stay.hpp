// The clipping rule that scales only gradients longer than the clip norm.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "privgrad/clipping.hpp"

namespace privgrad::core {

/// Leaves contributions within the clip norm as they are, and shortens longer ones to that norm.
class LongestStay final : public Clipping {
 public:
  void start(std::span<const ParameterGroup>) override {}
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    double square = 0.0;
    for (const double one : squared_norms) square += one;
    const double norm = std::sqrt(square);
    std::fill(factors.begin(), factors.end(), norm <= clip_norm ? 1.0 : clip_norm / norm);
  }
};

}  // namespace privgrad::core
