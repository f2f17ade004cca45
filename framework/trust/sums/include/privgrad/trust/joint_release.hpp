// Releases a clipped sum and the count of unclipped examples as one Gaussian mechanism.
#pragma once

#include "privgrad/privacy.hpp"

namespace privgrad::core {

/// Computes the count share: the count's part of the joint bound, if a clipped sum and the count of
/// unclipped examples are released together, as one Gaussian mechanism.
///
/// Let an example contribute (g, b): its clipped gradient, ||g|| <= C, and b = +1/2 if it was
/// within the clip norm, -1/2 if not. With a count share s in [0, 1) and a = sqrt(1 - s^2), the
/// core releases one vector, the sum over examples of
///
///     v = (a g, 2 s C b),    ||v||^2 <= a^2 C^2 + s^2 C^2 = C^2,
///
/// with noise z C in every coordinate. This is a Gaussian mechanism of noise multiplier z on a sum
/// with L2 bound C, under every adjacency, and is charged as one; there is only one release and so
/// only one charge. The two parts are post-processing: multiplied by 1/a, the sum of the gradients
/// with noise C z/a; divided by 2 s C, the count with noise z/(2 s). So
///
///     s = z / (2 sigma_b) gives the count noise sigma_b, and the gradients the noise multiplier
///     z_delta = z / a = (z^-2 - (2 sigma_b)^-2)^(-1/2),
///
/// as in Andrew et al. 2021, Theorem 1.
/// \returns s, rounded down to a multiple of 2^-26, so that the count is a whole number of cells
///   where sums are exact. The count's noise is then z / (2 s), at least the requested noise.
/// \throws ConfigError unless 2 sigma_b > z, because the count alone would cost more than noise
///   multiplier z; or if sigma_b is so large, over 2^25 z, that no cell is left for the count.
double count_share(double noise_multiplier, double count_noise);

/// \returns a, rounded down so that a^2 + s^2 <= 1 holds for the rounded numbers.
double gradient_share(double count_share);

/// Both parts of a joint release.
struct JointParts {
  Released gradients;
  double unclipped = 0.0;  ///< The noisy share of unclipped examples in the expected batch.
};

/// Splits a released joint vector into its parts.
/// \param l2_bound  the bound C of the released sum.
JointParts take_apart(const Released& joint, double l2_bound, double count_share);

/// Returns the gradients in a slice of a joint vector that does not contain the count.
Released gradients_of(const Released& joint, double count_share);

}  // namespace privgrad::core
