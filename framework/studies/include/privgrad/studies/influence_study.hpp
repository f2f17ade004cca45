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
/// noise of a single step is multiplied by a factor, all else as it is.
struct InfluenceQuestion {
  const Manifest* manifest = nullptr;
  std::vector<double> noise_multiplier;  ///< Of its plan, one per step.
  std::vector<std::uint64_t> steps;      ///< Whose influence is asked for; rising.
  std::vector<double> factors;           ///< Above 1, all different, at least one.
  std::uint64_t repeats = 0;             ///< Runs of each kind, at least 1.
  /// What else is not as in the manifest: the data that take the place of the private ones.
  std::vector<ManifestChange> changes;
};

/// `count` steps from the first to the last, about equally far apart.
/// \param count  >= 1.
std::vector<std::uint64_t> spread_steps(std::uint64_t steps, std::uint64_t count);

/// The study that answers it: an arm with all noise as it is, and one for each step and factor.
/// Runs of one seed share their noise but for that factor, so that their difference is the
/// factor's.
Study influence_study(const InfluenceQuestion& question);

/// For each seed, the slope of the line through (sigma_t^2, training loss at the end) over the
/// factors, by least squares (the paper's fit c2 sigma_t^2 + c0); their mean over the seeds, and
/// its standard error (0 for one seed).
/// \param runs  those of influence_study(question).
/// \throws NumericError if a run diverged.
std::vector<InfluenceEstimate> estimated_influence(const InfluenceQuestion& question,
                                                   const StudyRuns& runs);

/// What estimates do not show: whether a step's noise matters at all, or more than another's.
/// Intervals around all of them hold what is estimated with 95 % together (Student's t, shared
/// evenly: Bonferroni). Where one value lies in all intervals, steps of equal influence give such
/// estimates; of steps that are equal, this is said in at least 95 % of measurements.
/// \param repeats  that each was measured with.
/// \returns a sentence; "" where the estimates tell steps apart.
std::string within_noise(std::span<const InfluenceEstimate> estimates, std::uint64_t repeats);

}  // namespace privgrad::core
