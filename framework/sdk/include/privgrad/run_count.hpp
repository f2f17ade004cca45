// The distribution of the number of runs in a "repeat_and_select" event.
#pragma once

#include "privgrad/export.hpp"

namespace privgrad {

/// ln(1 / gamma) of the truncated negative binomial distribution (Papernot and Steinke 2022,
/// Definition 1) with this mean:
///
///     P(K = k) is proportional to (1 - gamma)^k (eta + k - 1) ... (eta + 1) eta / k!, k >= 1,
///     E K = eta (1 / gamma - 1) / (1 - gamma^eta), or (1 / gamma - 1) / ln(1 / gamma) if eta = 0,
///
/// with a generating function f such that f'(x) = E K (gamma / (1 - (1 - gamma) x))^(1 + eta).
/// Every bound on the cost of such a selection grows with ln(1 / gamma), which grows with the mean.
///
/// \param mean  E K, finite and >= 1; at 1 there is always one run.
/// \param shape  eta, finite and > -1; 1: geometric, where 1 / gamma is the mean.
/// \returns a number not below the true value, rounding included; infinity if that is above 1e15,
///   because the shape is too near to -1 for this mean.
PRIVGRAD_API double log_inverse_gamma(double mean, double shape);

}  // namespace privgrad
