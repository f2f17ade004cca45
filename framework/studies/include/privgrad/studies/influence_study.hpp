#pragma once

#include <cstdint>
#include <span>
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

}  // namespace privgrad::core
