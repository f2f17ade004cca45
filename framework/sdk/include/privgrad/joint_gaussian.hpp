// The one Gaussian mechanism that several Gaussian releases on the same examples amount to.
#pragma once

#include <optional>

#include "privgrad/event.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// The noise multiplier of one Gaussian, as an interval: the true one is in it, roundings included.
struct JointGaussian {
  double low = 0.0;   ///< For upper bounds on what is spent. 0: something is without noise.
  double high = 0.0;  ///< For lower bounds. +infinity, like `low`: nothing is released.
};

/// Several Gaussians on the same examples are one, of noise multiplier (sum of z_i^-2)^(-1/2).
///
/// Whatever was chosen adaptively in between, the pair of output distributions that one example can
/// cause is a post-processing of N(0, 1) against N(mu, 1) with mu^2 = sum of (s / z_i)^2, s the
/// sensitivity of a sum with L2 bound 1 (Dong, Roth and Su 2022, Corollary 3.3 with Blackwell's
/// theorem), and the same post-processing carries a mixture of the two over: so sampling the whole
/// sequence at once is sampling the one Gaussian. It is attained, by contributions that are equal
/// each time, so that the one Gaussian costs no more either.
///
/// \param event  the releases on one batch; "composed" and "self_composed" are taken apart.
/// \returns nothing if anything but gaussian and non_private is among it. One gaussian that happens
///   once is that very number, with low = high.
/// \throws ConfigError as flatten().
PRIVGRAD_API std::optional<JointGaussian> joint_gaussian(const Event& event);

}  // namespace privgrad
