// Means with intervals, paired tests and Holm's correction, for comparing the arms of a study.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace privgrad::core {

/// The most pairs for a test that tries all patterns of signs: 2^19 patterns, up to a common sign.
inline constexpr std::size_t kMostSignFlips = 20;

/// A summary of one number from each of several independent runs.
struct SampleSummary {
  double mean = 0.0;
  std::optional<double> std;                  ///< With denominator n - 1; nothing for one run.
  std::optional<std::array<double, 2>> ci95;  ///< Student's t with n - 1 degrees of freedom.
};

/// \param values  at least one, finite.
/// \param looks  how often the values may have been examined, including the last time, to decide
///   whether to stop: all intervals together then have 95 % confidence (see compare_with_zero()).
SampleSummary summarize(std::span<const double> values, std::size_t looks = 1);

/// Two tests of whether the mean of paired differences is 0.
struct PairedComparison {
  SampleSummary difference;
  /// Student's t, two-sided: exact for normal differences, and consistent with the interval. Absent
  /// for one pair, or if all differences are equal but not 0, so that there is no spread.
  std::optional<double> p;
  /// The share of all patterns of signs under which the mean is at least as far from 0. Exact if
  /// each difference is as likely as its negative, normal or not. At least 2^(1-n) for n pairs.
  /// Absent for one pair, and for more than kMostSignFlips pairs. (Fisher 1935, section 21.)
  std::optional<double> p_sign_flip;
};

/// The smallest possible p_sign_flip, for any differences: 2^(1-n).
/// \param pairs  n, at least one.
double least_sign_flip_p(std::size_t pairs);

/// Half the width, in standard errors, of Student's t interval for a mean with this confidence.
/// \param degrees_of_freedom  at least one.
/// \param confidence  in (0, 1), of both sides together.
double student_half_width(std::size_t degrees_of_freedom, double confidence);

/// Tests paired differences. Pairs may be added until an interval is short enough, with looks at
/// numbers of pairs that are fixed beforehand. With K looks each interval has confidence
/// 1 - 0.05/K, and each p is multiplied by K. By the union bound (Bonferroni) all K intervals are
/// jointly valid with 95 % confidence, and so is the interval at which the study stopped, for any
/// stopping rule.
/// \param differences  at least one, finite.
/// \param looks  K, at least 1.
PairedComparison compare_with_zero(std::span<const double> differences, std::size_t looks = 1);

/// Whether the absolute value of a mean difference is below a margin: the p of two one-sided t
/// tests, for a mean of at most -margin and for a mean of at least margin (Schuirmann 1987). A
/// small p means that the mean is between -margin and margin.
/// \param pairs  the number of pairs in the summary.
/// \param margin  > 0, chosen before the data was seen.
/// \returns nothing for one pair, or if all differences are equal, so that there is no spread.
std::optional<double> equivalence_p(const SampleSummary& difference, std::size_t pairs,
                                    double margin, std::size_t looks = 1);

/// The smallest number of pairs for which Student's t at the level 0.05 detects a mean difference
/// of this size with probability 0.8 (noncentral t; above a thousand pairs the normal law).
/// \param effect  not 0.
/// \param std  standard deviation of single differences, > 0.
/// \returns at least 2; nothing above a million.
std::optional<std::size_t> pairs_to_find(double effect, double std);

/// The numbers of pairs at which a study that may stop is examined: at_least, twice as many, and so
/// on, up to at_most.
/// \param at_least  at least 2.
/// \param at_most  at least `at_least`.
std::vector<std::size_t> looks_between(std::size_t at_least, std::size_t at_most);

/// Holm's step-down correction (Holm 1979): if each p value is replaced by the result, the
/// probability of at least one false claim is at most the level, for any dependence between the
/// tests. A test without a p value counts as a test, and gets no p value.
std::vector<std::optional<double>> holm(std::span<const std::optional<double>> p_values);

}  // namespace privgrad::core
