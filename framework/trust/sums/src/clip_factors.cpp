#include "privgrad/trust/clip_factors.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "privgrad/error.hpp"
#include "privgrad/value.hpp"
#include "privgrad/wide_registers.hpp"

namespace privgrad::core {
namespace {

constexpr double kUnit = std::numeric_limits<double>::epsilon();  // 2^-52: twice the unit roundoff

/// Brings the factors down so that sum_g (factor_g norm_g)^2 <= bound^2.
void cap(std::span<const double> squared_norms, double bound, std::span<double> factors) {
  if (!(bound > 0.0)) return std::fill(factors.begin(), factors.end(), 0.0);
  double squares = 0.0;
  for (std::size_t group = 0; group < factors.size(); ++group) {
    if (!(factors[group] >= 0.0) || std::isinf(factors[group])) factors[group] = 0.0;
    // After the division by the bound, only squares that are too small to matter underflow.
    const double length = factors[group] * (std::sqrt(squared_norms[group]) / bound);
    squares += length * length;
  }
  const double at_most =
      std::sqrt(squares) * (1.0 + (static_cast<double>(factors.size()) + 8.0) * kUnit);
  if (at_most <= 1.0) return;
  for (double& factor : factors) factor = std::isfinite(at_most) ? factor / at_most : 0.0;
}

}  // namespace

void check_clip_norm(double clip_norm, const std::string& what) {
  // Written so that a NaN fails too.
  if (clip_norm >= kSmallestClipNorm && clip_norm <= kLargestClipNorm) return;
  throw ConfigError(what + "is " + format_number(clip_norm) + ", allowed is [" +
                    format_number(kSmallestClipNorm) + ", " + format_number(kLargestClipNorm) +
                    "]");
}

double squared_norm_at_most(std::span<const float> row) {
  SquaredNorm norm;
  norm.add(row);
  return norm.at_most();
}

void SquaredNorm::add(std::span<const float> piece) {
  std::size_t i = 0;
  in_wide_registers([&] {
    std::array<double, kTogether> partial = partial_;
    for (; i + kTogether <= piece.size(); i += kTogether) {
      for (std::size_t j = 0; j < kTogether; ++j) {
        const double x = piece[i + j];
        partial[j] += x * x;
      }
    }
    partial_ = partial;
  });
  for (; i < piece.size(); ++i)
    rest_ += static_cast<double>(piece[i]) * static_cast<double>(piece[i]);
  size_ += piece.size();
}

double SquaredNorm::at_most() const {
  double total = rest_;
  for (const double part : partial_) total += part;
  return total * (1.0 + (static_cast<double>(size_) + 8.0) * kUnit);
}

LengthBound::LengthBound(double bound) : bound_(bound) {
  if (bound > 0.0 && std::isfinite(bound)) scale_ = std::ldexp(1.0, -std::ilogb(bound));
}

double LengthBound::factor() const {
  if (!(bound_ > 0.0)) return 0.0;
  const double squares = std::accumulate(partial_.begin(), partial_.end(), 0.0);
  const double length = std::sqrt(squares) / (bound_ * scale_);
  const double at_most = length * (1.0 + (static_cast<double>(size_) + 8.0) * kUnit);
  if (!std::isfinite(at_most)) return 0.0;
  return at_most <= 1.0 ? 1.0 : 1.0 / at_most;
}

bool clip_factors(const Clip& clip, std::span<const double> squared_norms,
                  std::span<double> factors) {
  double whole = 0.0;
  for (const double squares : squared_norms) whole += squares;
  if (!std::isfinite(whole)) {
    std::fill(factors.begin(), factors.end(), 0.0);
    return false;
  }
  // A factor that the rule leaves unwritten is 0, not the factor of another example.
  std::fill(factors.begin(), factors.end(), 0.0);
  clip.rule.factors(squared_norms, clip.clip_norm, factors);
  cap(squared_norms, clip.clip_norm, factors);
  return std::sqrt(whole) <= clip.clip_norm;
}

}  // namespace privgrad::core
