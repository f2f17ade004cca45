// The single Gaussian mechanism that is equivalent to several on the same examples.
#pragma once

#include <optional>

#include "privgrad/event.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// The noise multiplier of a Gaussian, as an interval around the true value, rounding included.
struct JointGaussian {
  double low = 0.0;   ///< For upper bounds on the privacy loss; 0 if some release has no noise.
  double high = 0.0;  ///< For lower bounds. +infinity, like `low`, if nothing was released.
};

/// Several Gaussians on the same examples equal a single Gaussian with the noise multiplier
/// (sum of z_i^-2)^(-1/2), where z_i are their noise multipliers.
///
/// Whatever was chosen adaptively in between, the pair of output distributions that one example can
/// cause is a post-processing of N(0, 1) against N(mu, 1) with mu^2 = sum of (s / z_i)^2, where s
/// is the sensitivity of a sum with L2 bound 1 (Dong, Roth and Su 2022, Corollary 3.3 with
/// Blackwell's theorem). The same post-processing applies to mixtures of the two distributions. So
/// if one batch is drawn for the whole sequence, the sequence costs as much as the single Gaussian
/// on that batch. An example with equal contributions to all releases attains this cost, so the
/// single Gaussian does not overstate the cost.
///
/// \param event  the releases on one batch; "composed" and "self_composed" are unfolded.
/// \returns nothing if the event contains anything except gaussian and non_private. A single
///   gaussian gives its own noise multiplier, with low = high.
/// \throws ConfigError like flatten().
PRIVGRAD_API std::optional<JointGaussian> joint_gaussian(const Event& event);

}  // namespace privgrad
