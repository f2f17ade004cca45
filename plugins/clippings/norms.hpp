#pragma once

#include <cmath>
#include <numeric>
#include <span>

// What the clipping rules share that have one factor for all groups.
namespace privgrad::clippings {

/// The L2 norm of an example's whole gradient.
inline double whole_norm(std::span<const double> squared_norms) {
  return std::sqrt(std::accumulate(squared_norms.begin(), squared_norms.end(), 0.0));
}

/// min(1, clip_norm / norm), for norm 0 too.
inline double clip_to(double clip_norm, double norm) {
  return norm <= clip_norm ? 1.0 : clip_norm / norm;
}

}  // namespace privgrad::clippings
