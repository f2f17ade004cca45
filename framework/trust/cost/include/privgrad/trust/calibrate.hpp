// Searches for the least noise, or the most repetitions, with which epsilon meets a target.
#pragma once

#include <cstdint>
#include <functional>

namespace privgrad::core {

/// The smallest scale that any search looks at.
inline constexpr double kLeastScale = 0x1p-60;

/// A noise multiplier with which a Gaussian release shows who takes part in it: the privacy loss of
/// a unit at its bound is N(1/(2 sigma^2), 1/sigma^2), and is here above `epsilon` with probability
/// Phi(3) = .9987. A target that is met with this noise is met because delta is at least that share
/// of the probability of taking part at all, and the noise protects nobody who takes part.
/// \param epsilon  >= 0.
double exposing_noise(double epsilon);

/// \throws PrivacyError  always: a search for noise ended at exposing_noise().
[[noreturn]] void refuse_delta_that_pays(double delta);

/// The smallest scale at which `epsilon_at` is at most `target`: to a relative 1e-12 in the scale,
/// or 1e-10 in epsilon, whichever is reached first; `least` if the target is met there.
///
/// One-sided: the scale that is returned was itself evaluated, and its epsilon is at most the
/// target.
/// \param epsilon_at  non-increasing in the scale; may return infinity.
/// \param target  > 0, finite.
/// \param least  > 0, at most 2^60; kLeastScale where it is smaller.
/// \throws PrivacyError if no scale up to 2^60 meets the target.
double smallest_scale(const std::function<double(double scale)>& epsilon_at, double target,
                      double least = kLeastScale);

/// The smallest scale at which `proved_at` is at most `target`, to a relative 1e-7 in epsilon, where an
/// estimate is cheap and a proof is not: the estimate finds the scale, which is then raised by what is
/// proved beyond it. If the two differ little, that takes two proofs.
///
/// One-sided: what is proved at the scale that is returned was evaluated, and is at most the target.
/// \param estimated_at  as smallest_scale() needs it; only how many proofs it takes depends on it.
/// \param proved_at  non-increasing in the scale but for roundings; may return infinity.
/// \throws PrivacyError if no scale up to 2^60 meets the target.
double proved_scale(const std::function<double(double scale)>& estimated_at,
                    const std::function<double(double scale)>& proved_at, double target,
                    double least = kLeastScale);

/// The largest number of repetitions whose epsilon is at most `target`; 0 if one is too many.
///
/// One-sided: the count that is returned was itself evaluated (unless it is 0).
/// \param epsilon_at  non-decreasing in the count; may return infinity.
/// \throws PrivacyError if 2^40 repetitions still meet the target: nothing limits them.
std::uint64_t largest_count(const std::function<double(std::uint64_t count)>& epsilon_at,
                            double target);

}  // namespace privgrad::core
