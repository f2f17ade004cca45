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
/// \param looks   how often the values may have been looked at, the last time included, to decide
///   whether to stop there: intervals then hold with 95 % together (see compare_with_zero()).
SampleSummary summarize(std::span<const double> values, std::size_t looks = 1);

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

/// Pairs may be added until an interval is short enough, and then looked at again, at numbers of
/// pairs that are fixed beforehand. With K looks each interval has the confidence 1 - 0.05 / K, and
/// each p is K times what it would be: by the union bound all K intervals hold with 95 % together,
/// so that the one where it stopped does, whatever the rule of stopping (Bonferroni).
/// \param differences  at least one, finite.
/// \param looks        K, at least 1.
PairedComparison compare_with_zero(std::span<const double> differences, std::size_t looks = 1);

/// Whether a mean difference is smaller than a margin: the p of two one-sided t tests, of the mean
/// being at most -margin and of it being at least margin (Schuirmann 1987). Small: it lies between.
/// \param pairs   that the summary is of.
/// \param margin  > 0, chosen before the data were seen.
/// \returns nothing for one pair, and where all differences are the same: there is no spread.
std::optional<double> equivalence_p(const SampleSummary& difference, std::size_t pairs,
                                    double margin, std::size_t looks = 1);

/// The fewest pairs for which Student's t at the level 0.05 finds a mean difference of this size
/// with a probability of 0.8 (noncentral t; above a thousand pairs the normal law).
/// \param effect  not 0. \param std  of single differences, > 0.
/// \returns at least 2; nothing above a million.
std::optional<std::size_t> pairs_to_find(double effect, double std);

/// The numbers of pairs at which a study that may stop is looked at: at_least, twice that, and so
/// on, and at_most.
/// \param at_least  at least 2. \param at_most  not less.
std::vector<std::size_t> looks_between(std::size_t at_least, std::size_t at_most);

/// Holm's step-down correction (Holm 1979): with each p replaced by the result, the probability of
/// at least one false claim among all is at most the level, however the tests depend on each other.
/// A test without a p has none afterwards, and is counted all the same.
std::vector<std::optional<double>> holm(std::span<const std::optional<double>> p_values);

}  // namespace privgrad::core
