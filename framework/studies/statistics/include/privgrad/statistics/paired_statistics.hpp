// Means with intervals, paired tests and Holm's correction, for comparing the arms of a study.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace privgrad::core {

/// Pairs up to which every pattern of signs is tried: 2^19 of them.
inline constexpr std::size_t kMostSignFlips = 20;

/// A summary of one number from each of several independent runs.
struct SampleSummary {
  double mean = 0.0;
  std::optional<double> std;                  ///< With n - 1; nothing for one run.
  std::optional<std::array<double, 2>> ci95;  ///< Student's t with n - 1 degrees of freedom.
};

/// \param values  at least one, finite.
SampleSummary summarize(std::span<const double> values);

/// Two tests of whether the mean of paired differences is 0.
struct PairedComparison {
  SampleSummary difference;
  /// Student's t, two-sided: exact for normal differences, and the test that belongs to the
  /// interval. Nothing for one pair, and where all differences are the same but not 0 (there is no
  /// spread to compare with).
  std::optional<double> p;
  /// The share of all patterns of signs under which the mean is at least as far from 0: exact
  /// wherever a difference is as likely as its negative, normal or not. Never below 2^(1-n).
  /// Nothing for more than kMostSignFlips pairs. (Fisher 1935, section 21.)
  std::optional<double> p_sign_flip;
};

/// The least that p_sign_flip can be, whatever the differences are: 2^(1-n).
/// \param pairs  n, at least one.
double least_sign_flip_p(std::size_t pairs);

/// Half the width, in standard errors, of an interval around a mean that holds the true mean with
/// this confidence: Student's t.
/// \param degrees_of_freedom  at least one.
/// \param confidence  in (0, 1), of both sides together.
double student_half_width(std::size_t degrees_of_freedom, double confidence);

/// \param differences  at least one, finite.
PairedComparison compare_with_zero(std::span<const double> differences);

/// Holm's step-down correction (Holm 1979): with each p replaced by the result, the probability of
/// at least one false claim among all is at most the level, however the tests depend on each other.
/// A test without a p has none afterwards, and is counted all the same.
std::vector<std::optional<double>> holm(std::span<const std::optional<double>> p_values);

}  // namespace privgrad::core
