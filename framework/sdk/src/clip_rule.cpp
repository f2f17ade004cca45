#include "privgrad/clip_rule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace privgrad {
namespace {

double factor_of(const ClipRule& rule, double bound, double norm) {
  if (rule.kind == ClipRule::Kind::shorten) return norm <= bound ? 1.0 : bound / norm;
  const double factor = bound / (norm + rule.gamma);
  return std::isfinite(factor) ? factor : 0.0;
}

}  // namespace

HasClipRule::~HasClipRule() = default;

void rule_factors(const ClipRule& rule, std::span<const double> squared_norms,
                  std::span<double> factors) {
  double whole = 0.0;
  for (const double squares : squared_norms) whole += squares;
  for (std::size_t g = 0; g < factors.size(); ++g) {
    factors[g] = rule.bounds.size() == 1
                     ? factor_of(rule, rule.bounds[0], std::sqrt(whole))
                     : factor_of(rule, rule.bounds[g], std::sqrt(squared_norms[g]));
  }
}

void cell_scales(const CellScaling& scaling, std::span<const double> squared_norms,
                 std::span<double> scales) {
  double whole = 0.0;
  for (const double squares : squared_norms) whole += squares;
  if (!std::isfinite(whole)) {
    std::ranges::fill(scales, 0.0);
    return;
  }
  rule_factors(scaling.rule, squared_norms, scales);
  const std::size_t groups = squared_norms.size();
  double squares = 0.0;
  for (std::size_t g = 0; g < groups; ++g) {
    const double length = scales[g] * (std::sqrt(squared_norms[g]) / scaling.clip_norm);
    squares += length * length;
  }
  const double at_most = std::sqrt(squares) * (1.0 + (static_cast<double>(groups) + 8.0) *
                                                         std::numeric_limits<double>::epsilon());
  for (double& scale : scales) {
    if (!(at_most <= 1.0)) scale = std::isfinite(at_most) ? scale / at_most : 0.0;
    scale *= scaling.cells_of_a_unit;
    if (!std::isfinite(scale)) scale = 0.0;
  }
}

}  // namespace privgrad
