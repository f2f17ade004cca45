// Estimates the influence of each step's noise by retraining with more noise in one step at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "privgrad/influence.hpp"
#include "privgrad/studies/study.hpp"
#include "privgrad/studies/study_results.hpp"

namespace privgrad::core {

/// An estimate of influence by retraining (Hong, Wang and Zhou 2021, Appendix D): runs in which the
/// noise of a single step is multiplied by a factor, with everything else unchanged.
struct InfluenceQuestion {
  const Manifest* manifest = nullptr;
  std::vector<double> noise_multiplier;  ///< The plan's noise multipliers, one per step.
  std::vector<std::uint64_t> steps;      ///< The steps to measure; increasing.
  std::vector<double> factors;           ///< Above 1, all different, at least one.
  std::uint64_t repeats = 0;             ///< The number of runs of each arm, at least 1.
  /// Further changes of the manifest, in particular the data that replaces the private data.
  std::vector<ManifestChange> changes;
};

/// Returns `count` steps (all, if there are fewer) from the first to the last, about equally far
/// apart; for a count of 1, the last.
/// \param count  >= 1.
std::vector<std::uint64_t> spread_steps(std::uint64_t steps, std::uint64_t count);

/// The study that answers a question: an arm with unchanged noise, and one for each step and
/// factor. Runs with the same seed have the same noise except for that factor, so their difference
/// is due to the factor.
Study influence_study(const InfluenceQuestion& question);

/// Fits, for each seed, the least-squares line through (sigma_t^2, training loss at the end) over
/// the factors (the paper's fit c2 sigma_t^2 + c0). Returns the slopes' means over the seeds, and
/// their standard errors (0 for one seed).
/// \param runs  the runs of influence_study(question).
/// \throws NumericError if a run diverged.
std::vector<InfluenceEstimate> estimated_influence(const InfluenceQuestion& question,
                                                   const StudyRuns& runs);

/// A warning if the estimates do not show that one step's noise matters more than another's.
/// Computes simultaneous 95 % intervals around all estimates (Student's t, with Bonferroni's
/// correction). If one value lies in all intervals, steps of equal influence could have produced
/// such estimates; if the steps are equal, at least 95 % of measurements give the warning.
/// \param repeats  the number of runs behind each estimate.
/// \returns a sentence; "" if the estimates distinguish steps, or a single estimate is above 0.
std::string within_noise(std::span<const InfluenceEstimate> estimates, std::uint64_t repeats);

}  // namespace privgrad::core
