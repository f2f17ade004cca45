// Norms and factors for the clipping rules that scale all groups of an example by one factor.
#pragma once

#include <cmath>
#include <numeric>
#include <span>

namespace privgrad::clippings {

/// Returns the L2 norm of an example's whole gradient.
inline double whole_norm(std::span<const double> squared_norms) {
  return std::sqrt(std::accumulate(squared_norms.begin(), squared_norms.end(), 0.0));
}

/// Returns min(1, clip_norm / norm); 1 for norm 0.
inline double clip_to(double clip_norm, double norm) {
  return norm <= clip_norm ? 1.0 : clip_norm / norm;
}

}  // namespace privgrad::clippings
