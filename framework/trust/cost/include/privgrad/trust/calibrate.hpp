// Searches for the least noise, or the most repetitions, with which epsilon meets a target.
#pragma once

#include <cstdint>
#include <functional>

namespace privgrad::core {

/// The smallest scale that a search considers.
inline constexpr double kLeastScale = 0x1p-60;

/// Returns a noise multiplier so small that a Gaussian release reveals who takes part in it. The
/// privacy loss of a unit at its bound is N(1/(2 sigma^2), 1/sigma^2), which here exceeds `epsilon`
/// with probability Phi(3) = .9987. Such noise meets a target only if delta is at least .997 or,
/// with sampling, of the order of the probability of taking part: it protects no participant.
/// \param epsilon  >= 0.
double exposing_noise(double epsilon);

/// \throws PrivacyError  always, to report that a search for noise ended at exposing_noise().
[[noreturn]] void refuse_delta_that_pays(double delta);

/// Returns the smallest scale at which `epsilon_at` is at most `target`, to a relative precision of
/// 1e-12 in the scale or 1e-10 in epsilon, whichever is reached first; `least` if the target is
/// already met there.
///
/// One-sided: the returned scale was itself evaluated, and its epsilon is at most the target.
/// \param epsilon_at  non-increasing in the scale; may return infinity.
/// \param target  > 0, finite.
/// \param least  > 0, at most 2^60; values below kLeastScale mean kLeastScale.
/// \throws PrivacyError if no scale up to 2^60 meets the target.
double smallest_scale(const std::function<double(double scale)>& epsilon_at, double target,
                      double least = kLeastScale);

/// Returns the smallest scale at which `proved_at` is at most `target`, to a relative precision of
/// 1e-7 in epsilon, for proofs that are much more expensive than estimates. The scale is found by
/// the estimate, and then raised to make up for the difference between estimate and proof. If the
/// two differ little, this takes two proofs.
///
/// One-sided: the proof was evaluated at the returned scale, and is at most the target.
/// \param estimated_at  like epsilon_at of smallest_scale(); affects only the number of proofs.
/// \param proved_at  non-increasing in the scale, up to rounding errors; may return infinity.
/// \throws PrivacyError if no scale up to 2^60 meets the target.
double proved_scale(const std::function<double(double scale)>& estimated_at,
                    const std::function<double(double scale)>& proved_at, double target,
                    double least = kLeastScale);

/// Returns the largest number of repetitions whose epsilon is at most `target`; 0 if one repetition
/// exceeds the target.
///
/// One-sided: the returned count was itself evaluated (unless it is 0).
/// \param epsilon_at  non-decreasing in the count; may return infinity.
/// \throws PrivacyError if even 2^40 repetitions meet the target, so that nothing limits them.
std::uint64_t largest_count(const std::function<double(std::uint64_t count)>& epsilon_at,
                            double target);

}  // namespace privgrad::core
