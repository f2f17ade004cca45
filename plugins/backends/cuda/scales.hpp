// Kernels that choose how gradients are scaled to cells, and which examples are taken.
#pragma once

#include "cells.hpp"

namespace privgrad::cuda {

/// A gradient that is zero or not finite has no cells, and its scale is 0. Other scales are limited
/// so that the group's cells are no longer than most_cells, whatever the request.
PRIVGRAD_HD double limited_scale(double scale, double squared_norm, double most_cells) {
  // false for a NaN
  return squared_norm > 0.0 ? smaller(scale, most_cells / square_root(squared_norm)) : 0.0;
}

/// Uses the requested scales. (count: [rows, groups].)
struct ChooseScales {
  uint64_t count;
  double most_cells;
  const double* scales;
  Share* shares;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    shares[i].scale = limited_scale(scales[i], shares[i].squared_norm, most_cells);
  }
};

/// Computes the scales of one example: privgrad::cell_scales(), in the same order.
struct ClipScales {
  uint64_t count, groups;  // count: rows
  bool shortens;
  double gamma, clip_norm, cells_of_a_unit, most_cells;
  uint64_t bounds_count;
  const double* bounds;
  Share* shares;           // [rows, groups]
  double *norms, *scales;  // [rows, groups]; norms: out, the squared norms

  PRIVGRAD_HD void operator()(uint64_t i) const {
    Share* const own = shares + i * groups;
    double* const to = scales + i * groups;
    double whole = 0.0;
    for (uint64_t g = 0; g < groups; ++g) {
      norms[i * groups + g] = own[g].squared_norm;
      whole += own[g].squared_norm;
    }
    double squares = 0.0;
    for (uint64_t g = 0; g < groups; ++g) {
      to[g] = 0.0;
      if (!is_finite(whole)) continue;
      const double norm = square_root(own[g].squared_norm);
      to[g] = bounds_count == 1 ? factor(bounds[0], square_root(whole)) : factor(bounds[g], norm);
      const double length = to[g] * (norm / clip_norm);
      squares += length * length;
    }
    const double at_most =
        square_root(squares) * (1.0 + (static_cast<double>(groups) + 8.0) * 0x1p-52);
    for (uint64_t g = 0; g < groups; ++g) {
      double scale = to[g];
      if (!(at_most <= 1.0)) scale = is_finite(at_most) ? scale / at_most : 0.0;
      scale *= cells_of_a_unit;
      to[g] = is_finite(scale) ? scale : 0.0;
      own[g].scale = limited_scale(to[g], own[g].squared_norm, most_cells);
    }
  }

 private:
  PRIVGRAD_HD double factor(double bound, double norm) const {
    if (shortens) return norm <= bound ? 1.0 : bound / norm;
    const double factor = bound / (norm + gamma);
    return is_finite(factor) ? factor : 0.0;
  }
};

/// Takes the examples whose cells are no longer than the bound.
struct TakeWithin {
  uint64_t count;
  Wide most;  // the square of the bound
  const Wide* lengths;
  uint8_t* taken;
  PRIVGRAD_HD void operator()(uint64_t i) const { taken[i] = is_larger(lengths[i], most) ? 0 : 1; }
};

}  // namespace privgrad::cuda
