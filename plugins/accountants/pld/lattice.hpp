// Discretises a privacy loss onto a grid, as a mechanism that dominates it and a mechanism that it
// dominates.
#pragma once

#include <cstdint>
#include <vector>

#include "loss.hpp"

namespace pld {

/// A measure of the privacy loss on a grid of step h: mass[j] at the loss
/// g = index[j] * h + offset; the mass under Q is mass[j] * e^(-g). Indices increase.
struct Lattice {
  std::vector<std::int64_t> index;
  std::vector<double> mass;
  /// The mass under P where Q has no mass. In a lower bound it may be negative.
  double at_infinity = 0.0;
};

/// Two lattice mechanisms around a mechanism: `upper` dominates the mechanism, which dominates
/// `lower`, rounding included.
struct Bracket {
  Lattice upper, lower;
};

/// The grid onto which a loss distribution is discretised.
struct Grid {
  double step = 0.0;    ///< h > 0, with at most 30 significant bits, so that index * h is never
                        ///< rounded.
  double offset = 0.0;  ///< The loss at index 0.
  double tilt = 0.0;    ///< >= 0: masses matter in proportion to e^(tilt * loss - log_weight).
  double log_weight = 0.0;
  /// The highest losses are treated as infinite if that costs at most this much.
  double top_cut = 0.0;
  double bottom_cut = 0.0;  ///< The lowest losses are merged if they weigh at most this much.
};

/// Discretises two pairs, which may be the same: `above` for the upper bound and `below` for the
/// lower bound. `above` must dominate `below`.
///
/// Dominance is about the curves H(x) = sup_A P(A) - x Q(A) with x = e^epsilon: a measure m on
/// losses has the curve sum m_j (1 - x e^(-g_j))_+. If one curve is above another for all x > 0, it
/// stays above when both are composed with the same measure, because a composition's curve averages
/// the curves H(x e^(-g)) of one part with the weights m >= 0 of the other part (for mechanisms:
/// Zhu, Dong and Wang 2022, Theorem 10). Masses need not add up to 1.
///
/// Upper: H is replaced by its chords between the nodes of the grid ("connect the dots",
/// Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, Theorem 3.3): the mass of a cell goes to
/// its two ends such that its totals under P and under Q stay the same.
///
/// Lower: H lies above its tangents. With one tangent T_i per cell between nodes x_i and x_(i+1),
/// the polygon through (x_i, min(T_(i-1)(x_i), T_i(x_i))) lies below a tangent in each cell, hence
/// below H. Any event A gives a valid line P(A) - x Q(A) <= H(x), so an inexact threshold does no
/// harm.
///
/// Both errors are of second order in the step: in the upper bound a smooth loss gains a variance
/// of h^2/6, in the lower bound it loses h^2/12. Cells are wider than one step where masses hardly
/// affect the answer.
///
/// \throws NumericError if too many cells are needed, or the grid is finer than losses are known.
Bracket discretise(const LossPair& above, const LossPair& below, const Grid& grid);

}  // namespace pld
