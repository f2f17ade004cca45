// The privacy curve of the Gaussian mechanism: epsilon from delta and delta from epsilon.
#pragma once

namespace gdp {

/// The privacy curve of N(0, 1) against N(mu, 1), exact (Balle and Wang 2018, Theorem 8):
///     delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
/// Results are rounded up by a bound on their own rounding error.
///
/// \param mu  finite, above 0.

/// Returns ln delta(epsilon), so that even tiny deltas are representable.
/// \param epsilon  finite, >= 0.
double log_delta(double mu, double epsilon);

/// Returns the smallest epsilon >= 0 with delta(epsilon) <= delta.
/// \param delta  in (0, 1).
/// \throws NumericError if the search fails.
double epsilon(double mu, double delta);

}  // namespace gdp
