// The cost of releases with correlated noise if examples take part at random in each cycle.
#pragma once

#include <span>
#include <vector>

#include "privgrad/trust/correlated_recipes.hpp"

namespace privgrad::core {

/// Returns the noise multiplier to charge for each step. The steps in which an example may take
/// part must be at least as many steps apart as C has bands, each with its own coin.
///
/// The release is X + N zeta, where N contains the multipliers of the recipes, and m_t is the
/// multiplier of step t's own noise. Let C be the matrix with c_j / m_t at row t + j and column t,
/// and C N = I + R. If ||R||_2 <= rho < 1, then C N N^T C^T >= (1 - rho)^2 I, since no singular
/// value of I + R is below 1 - rho. So C N zeta has the law of (1 - rho) zeta' plus a Gaussian
/// vector xi that is independent of zeta'. Given xi, the releases C^-1 (C X + (1 - rho) zeta' + xi)
/// are a function of Y = C X + (1 - rho) zeta', and vice versa. C is lower triangular with a
/// positive diagonal, so row t follows from rows up to t. For every xi this is an adaptive run of
/// the mechanism Y, and mixing over xi, which depends on no data, raises no hockey-stick or Renyi
/// divergence (joint quasi-convexity: van Erven and Harremoes 2014, Theorem 13). This holds for any
/// coins, so amplification by the coins is preserved.
///
/// The cost of Y. An example's contribution g_t, of norm at most 1, shifts rows t to t + bands - 1
/// of Y by the column C e_t times g_t. Its steps are at least `bands` apart, so no row is shifted
/// twice. Given all rows before t, and the coins and contributions of all other examples, the rows
/// t to t + bands - 1 are a Gaussian mechanism of noise (1 - rho), whose shift has norm at most
/// ||C e_t|| and occurs with the probability of the example's coin. This is one Poisson-sampled
/// Gaussian release, chosen adaptively. Its noise multiplier (1 - rho) / ||C e_t|| is at least the
/// returned value. An example's releases compose (Choquette-Choo et al. 2023, Theorem 4, for C
/// without R).
///
/// R is computed from the doubles of the recipes, with a bound on its rounding errors. ||R||_2 is
/// at most the square root of the largest absolute row sum times the largest absolute column sum.
/// \param recipes  recipes with a window.
/// \param c  c_0 = 1, c_1, ...
/// \returns (1 - rho) m_t / ||c||, rounded down: at most the noise multiplier of the proof.
/// \throws PluginError unless all c_j are finite and c_0 = 1; PrivacyError if rho is not below 1.
std::vector<double> banded_multipliers(const CorrelatedRecipes& recipes, std::span<const double> c);

}  // namespace privgrad::core
