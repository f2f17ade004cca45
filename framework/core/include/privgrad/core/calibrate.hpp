#pragma once

#include <functional>

namespace privgrad::core {

/// The smallest scale (to a relative 1e-12) at which `epsilon_at` is at most `target`.
///
/// One-sided: the scale that is returned was itself evaluated, and its epsilon is at most the
/// target. \param epsilon_at  non-increasing in the scale; may return infinity. \param target > 0,
/// finite. \throws PrivacyError if no scale up to 2^60 meets the target.
double smallest_scale(const std::function<double(double scale)>& epsilon_at, double target);

}  // namespace privgrad::core
