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

/// The smallest scale at which `proved_at` is at most `target`, to a relative 1e-7 in epsilon, where an
/// estimate is cheap and a proof is not: the estimate finds the scale, which is then raised by what is
/// proved beyond it. If the two differ little, that takes two proofs.
///
/// One-sided: what is proved at the scale that is returned was evaluated, and is at most the target.
/// \param estimated_at  as smallest_scale() needs it; only how many proofs it takes depends on it.
/// \param proved_at  non-increasing in the scale but for roundings; may return infinity.
/// \throws PrivacyError if no scale up to 2^60 meets the target.
double proved_scale(const std::function<double(double scale)>& estimated_at,
                    const std::function<double(double scale)>& proved_at, double target);

/// The largest number of repetitions whose epsilon is at most `target`; 0 if one is too many.
///
/// One-sided: the count that is returned was itself evaluated (unless it is 0).
/// \param epsilon_at  non-decreasing in the count; may return infinity.
/// \throws PrivacyError if 2^40 repetitions still meet the target: nothing limits them.
std::uint64_t largest_count(const std::function<double(std::uint64_t count)>& epsilon_at,
                            double target);

}  // namespace privgrad::core
