// Converts rho-zCDP to epsilon and delta, always rounded up.
#pragma once

namespace zcdp {

/// An upper bound and the Renyi order that proves it (0 if no order is involved).
struct Bound {
  double value = 0.0;
  double order = 0.0;
};

/// Conversions from rho-zCDP to (epsilon, delta)-DP. Every result is rounded up by a bound on its
/// own rounding error, so that it stays an upper bound in floating point.
///
/// \param rho  in [0, +infinity]; infinity means that no finite bound is proved.
/// \param delta  in (0, 1).
/// \param epsilon  finite, >= 0.

/// epsilon = rho + 2 sqrt(rho ln(1/delta)): Bun and Steinke 2016, Proposition 1.3, the form used in
/// papers.
Bound classic_epsilon(double rho, double delta);

/// delta = exp(-(epsilon - rho)^2 / (4 rho)) for epsilon >= rho, otherwise 1: the same bound,
/// solved for delta.
Bound classic_delta(double rho, double epsilon);

/// Returns the infimum over all real orders of Canonne, Kamath and Steinke 2020, Proposition 12,
/// for D_a <= a rho; at least 0.
/// \throws NumericError if the best order cannot be found.
Bound optimal_epsilon(double rho, double delta);

/// The bound of optimal_epsilon() solved for delta, at most 1: Corollary 13 of the same paper.
/// \throws NumericError if the best order cannot be found.
Bound optimal_delta(double rho, double epsilon);

}  // namespace zcdp
