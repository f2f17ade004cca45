// The cost of releases with correlated noise whose examples take part by coins, in cycles.
#pragma once

#include <span>
#include <vector>

#include "privgrad/trust/correlated_recipes.hpp"

namespace privgrad::core {

/// The noise multiplier that each step is charged with, where an example takes part in steps that are
/// at least as far apart as C has bands, each time by a coin of its own.
///
/// What is released. X + N zeta, N the multipliers of the recipes, m_t those of own noise. Let C be
/// the matrix with c_j / m_t at row t + j and column t, and C N = I + R. Where ||R||_2 <= rho < 1,
/// C N N^T C^T >= (1 - rho)^2 I, since no singular value of I + R is below 1 - rho. So C N zeta has
/// the law of (1 - rho) zeta' plus a Gaussian vector xi that is independent of zeta'. Given xi, the
/// releases C^-1 (C X + (1 - rho) zeta' + xi) follow from Y = C X + (1 - rho) zeta', row t from rows
/// up to t, because C is lower triangular with a positive diagonal; and they say what Y says. That
/// is an adaptive run of the mechanism Y, whatever xi is, and mixing over xi, which depends on no data,
/// raises no hockey-stick or Renyi divergence (joint quasi-convexity: van Erven and Harremoes 2014,
/// Theorem 13). This holds for any coins, and so keeps what they amplify.
///
/// What Y costs. A row's contribution g_t, of norm at most 1, moves rows t to t + bands - 1 of Y by
/// the column C e_t times g_t, and its steps are `bands` apart at least, so that no row is moved by
/// two of them. Given all rows before t, and everybody else's coins and contributions, the rows t to
/// t + bands - 1 are a Gaussian mechanism of noise (1 - rho) whose shift has norm at most ||C e_t||,
/// and is there if the row's own coin is: one Poisson-sampled Gaussian release of noise multiplier
/// (1 - rho) / ||C e_t|| <= what is returned, chosen adaptively. A row's releases compose
/// (Choquette-Choo et al. 2023, Theorem 4, for C without R).
///
/// R is computed from the doubles of the recipes, with a bound on its roundings. ||R||_2 is at most
/// the root of the largest sum of sizes in a row times the largest in a column.
/// \param recipes  with a window.
/// \param c  c_0 = 1, c_1, ...
/// \returns (1 - rho) m_t / ||c||, rounded down: at most the noise multiplier of the proof.
/// \throws PluginError for a c that is none; PrivacyError if rho is not below 1.
std::vector<double> banded_multipliers(const CorrelatedRecipes& recipes, std::span<const double> c);

}  // namespace privgrad::core
