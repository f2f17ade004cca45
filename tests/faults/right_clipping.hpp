// A correct clipping rule, for derived classes to break.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "privgrad/clipping.hpp"
#include "privgrad/params.hpp"

class RightClipping : public privgrad::Clipping {
 public:
  explicit RightClipping(const privgrad::Params&) {}
  void start(std::span<const privgrad::ParameterGroup>) override {}
  void factors(std::span<const double> squared_norms, double clip_norm,
               std::span<double> factors) const override {
    std::fill(factors.begin(), factors.end(), factor(norm(squared_norms), clip_norm));
  }
  static double norm(std::span<const double> squared_norms) {
    double sum = 0.0;
    for (const double x : squared_norms) sum += x;
    return std::sqrt(sum);
  }
  /// Returns the factor for examples of this norm.
  static double factor(double norm, double clip_norm) {
    return std::min(1.0, clip_norm / std::max(norm, 1e-300));
  }
};
