// Scores each canary of an audit by the likelihood of the releases, with and without it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "audit_program.hpp"
#include "privgrad/plan/plan.hpp"
#include "privgrad/privacy.hpp"
#include "privgrad/random.hpp"

namespace privgrad::core {

/// The steps in which each canary takes part, for a sampler whose order is public.
class PublicParts {
 public:
  /// \param rows  the canaries' rows in the data.
  /// \param random  the sampler's streams.
  PublicParts(const Plan& plan, std::span<const std::uint32_t> rows, const RandomSource& random);

  /// \returns whether the sampler has a public order; otherwise only the sampled share of the rows
  ///   is known.
  bool is_known() const { return is_known_; }
  bool takes_part(std::uint64_t step, std::size_t canary) const {
    return parts_[step * canaries_ + canary] != 0;
  }
  /// The probability that a canary is in the batch: 0 or 1 if the order is public.
  double share(std::uint64_t step, std::size_t canary) const;

 private:
  bool is_known_ = false;
  const Plan& plan_;
  std::size_t canaries_;
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint8_t> parts_;  // [steps, canaries]
};

/// For each canary, the evidence about its coin: the logarithm of the likelihood ratio of the
/// releases in its coordinates, if releases are as the plan describes them. (If their distribution
/// differs, guesses are worse, but the bound from these guesses is still valid.)
///
/// Let y be the value that a step releases in a canary's coordinate, in units of its noise. A
/// canary that takes part shifts y by a = 1 / noise_multiplier. With q the probability of taking
/// part, the step adds log(1 - q + q exp(a y - a^2 / 2)) (and subtracts the same for -a under
/// replace_one). A release that continues another is first reduced to its new part, which has
/// separate noise (CorrelatedRecipes); the public order gives the canary's contribution to it.
class AuditScores {
 public:
  /// \param plan, layout, parts  must outlive this object.
  /// \param exchanged  whether a canary whose coin is false has the opposite gradient.
  /// \param keeps_steps  whether moved() will be called.
  AuditScores(const Plan& plan, const SpareLayout& layout, const PublicParts& parts, bool exchanged,
              bool keeps_steps);

  /// Adds a step; must be called in the order of the steps.
  /// \param noise_multiplier  the noise multiplier of the step's gradient; 0: no noise.
  void add(std::uint64_t step, const Released& gradient, double noise_multiplier);

  /// The scores, [canaries]: above 0 if the canary seems to be present.
  std::span<const double> values() const { return scores_; }
  /// The releases in the canaries' coordinates, [canaries][steps], in units of a contribution.
  const std::vector<std::vector<float>>& moved() const { return moved_; }

 private:
  double unit_of(std::uint64_t step, const Released& gradient, double noise_multiplier) const;
  void add_independent(std::uint64_t step, std::span<const double> moved, double noise_multiplier);
  void add_windowed(std::uint64_t step, std::span<const double> moved);
  void add_correlated(std::uint64_t step, std::span<const double> moved);

  const Plan& plan_;
  const SpareLayout& layout_;
  const PublicParts& parts_;
  bool exchanged_;
  std::vector<double> scores_;
  std::vector<std::vector<float>> moved_;  // empty unless steps are kept
  /// For correlated releases: each step's release, and the sum that each canary contributes if it
  /// is present, in units of the clip norm; [steps][canaries].
  std::vector<std::vector<double>> released_, sums_;
};

}  // namespace privgrad::core
