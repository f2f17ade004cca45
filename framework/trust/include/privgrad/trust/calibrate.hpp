// Searches for the least noise, or the most repetitions, with which epsilon meets a target.
#pragma once

#include <cstdint>
#include <functional>

namespace privgrad::core {

/// The smallest scale at which `epsilon_at` is at most `target`: to a relative 1e-12 in the scale,
/// or 1e-10 in epsilon, whichever is reached first.
///
/// One-sided: the scale that is returned was itself evaluated, and its epsilon is at most the
/// target.
/// \param epsilon_at  non-increasing in the scale; may return infinity.
/// \param target  > 0, finite.
/// \throws PrivacyError if no scale up to 2^60 meets the target.
double smallest_scale(const std::function<double(double scale)>& epsilon_at, double target);

/// The smallest scale from `start` on at which `epsilon_at` is at most `target`, as above: `start`
/// itself, if that meets the target. For a starting scale that is nearly right and was found by a
/// method which proves nothing.
double raised_scale(const std::function<double(double scale)>& epsilon_at, double target,
                    double start);

/// The largest number of repetitions whose epsilon is at most `target`; 0 if one is too many.
///
/// One-sided: the count that is returned was itself evaluated (unless it is 0).
/// \param epsilon_at  non-decreasing in the count; may return infinity.
/// \throws PrivacyError if 2^40 repetitions still meet the target: nothing limits them.
std::uint64_t largest_count(const std::function<double(std::uint64_t count)>& epsilon_at,
                            double target);

}  // namespace privgrad::core
