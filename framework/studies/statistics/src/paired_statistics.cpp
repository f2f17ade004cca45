#include "privgrad/statistics/paired_statistics.hpp"

#include <algorithm>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdint>
#include <utility>

namespace privgrad::core {
namespace {

using Student = boost::math::students_t_distribution<double>;

double mean_of(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

bool all_equal(std::span<const double> values) {
  return std::ranges::all_of(values, [&](double x) { return x == values.front(); });
}

/// The standard deviation; exactly 0 for equal values, despite rounding errors in `mean`.
double std_of(std::span<const double> values, double mean) {
  if (all_equal(values)) return 0.0;
  double sum = 0.0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

std::optional<double> t_test(const SampleSummary& summary, std::size_t n) {
  if (!summary.std) return std::nullopt;
  if (*summary.std == 0.0) {
    return summary.mean == 0.0 ? std::optional(1.0) : std::nullopt;
  }
  const double t = summary.mean / (*summary.std / std::sqrt(static_cast<double>(n)));
  const Student student(static_cast<double>(n - 1));
  return 2.0 * boost::math::cdf(boost::math::complement(student, std::abs(t)));
}

std::optional<double> for_looks(const std::optional<double>& p, std::size_t looks) {
  if (!p) return p;
  return std::min(1.0, *p * static_cast<double>(looks));
}

/// The probability that Student's t test at level 0.05 detects a difference of this many standard
/// deviations.
double power(double deviations, std::size_t pairs) {
  const auto n = static_cast<double>(pairs);
  const double shift = std::abs(deviations) * std::sqrt(n);
  if (pairs > 1000) {
    const boost::math::normal normal;
    return cdf(normal, shift - quantile(normal, 0.975));
  }
  const double edge = student_half_width(pairs - 1, 0.95);
  if (shift > edge + 30.0) return 1.0;  // avoids the library's long sums for large shifts
  const boost::math::non_central_t_distribution<double> law(n - 1.0, shift);
  return cdf(complement(law, edge)) + cdf(law, -edge);
}

std::optional<double> sign_flip_test(std::span<const double> differences) {
  const std::size_t n = differences.size();
  if (n > kMostSignFlips) return std::nullopt;
  double sum = 0.0, size = 0.0;
  for (const double d : differences) {
    sum += d;
    size += std::abs(d);
  }
  // Patterns with the same sum must count despite rounding errors.
  const double least = std::abs(sum) - 1e-12 * size;
  // A pattern and its negative are equally far from 0, so the last sign is fixed.
  const std::uint64_t patterns = std::uint64_t{1} << (n - 1);
  std::uint64_t as_far = 0;
  for (std::uint64_t pattern = 0; pattern < patterns; ++pattern) {
    double flipped = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      flipped += (pattern >> i & 1) != 0 ? -differences[i] : differences[i];
    }
    if (std::abs(flipped) >= least) ++as_far;
  }
  return static_cast<double>(as_far) / static_cast<double>(patterns);
}

}  // namespace

SampleSummary summarize(std::span<const double> values, std::size_t looks) {
  SampleSummary summary;
  const std::size_t n = values.size();
  summary.mean = all_equal(values) ? values.front() : mean_of(values);
  if (n < 2) return summary;
  summary.std = std_of(values, summary.mean);
  const double half = student_half_width(n - 1, 1.0 - 0.05 / static_cast<double>(looks)) *
                      *summary.std / std::sqrt(static_cast<double>(n));
  summary.ci95 = {summary.mean - half, summary.mean + half};
  return summary;
}

double least_sign_flip_p(std::size_t pairs) { return std::exp2(1.0 - static_cast<double>(pairs)); }

double student_half_width(std::size_t degrees_of_freedom, double confidence) {
  const Student student(static_cast<double>(degrees_of_freedom));
  return boost::math::quantile(boost::math::complement(student, (1.0 - confidence) / 2.0));
}

PairedComparison compare_with_zero(std::span<const double> differences, std::size_t looks) {
  PairedComparison comparison;
  comparison.difference = summarize(differences, looks);
  if (differences.size() < 2) return comparison;
  comparison.p = for_looks(t_test(comparison.difference, differences.size()), looks);
  comparison.p_sign_flip = for_looks(sign_flip_test(differences), looks);
  return comparison;
}

std::optional<double> equivalence_p(const SampleSummary& difference, std::size_t pairs,
                                    double margin, std::size_t looks) {
  if (difference.std.value_or(0.0) == 0.0) return std::nullopt;
  const double room = margin - std::abs(difference.mean);
  const double t = room / (*difference.std / std::sqrt(static_cast<double>(pairs)));
  const Student student(static_cast<double>(pairs - 1));
  return for_looks(boost::math::cdf(boost::math::complement(student, t)), looks);
}

std::optional<std::size_t> pairs_to_find(double effect, double std) {
  constexpr double kWanted = 0.8;
  constexpr std::size_t kMost = 1'000'000;
  const double deviations = effect / std;
  if (power(deviations, kMost) < kWanted) return std::nullopt;
  std::size_t low = 1, high = 2;  // low is too few pairs; high is tried next
  while (power(deviations, high) < kWanted) low = std::exchange(high, std::min(2 * high, kMost));
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (power(deviations, middle) < kWanted ? low : high) = middle;
  }
  return high;
}

std::vector<std::size_t> looks_between(std::size_t at_least, std::size_t at_most) {
  std::vector<std::size_t> looks;
  for (std::size_t pairs = at_least; pairs < at_most; pairs *= 2) looks.push_back(pairs);
  looks.push_back(at_most);
  return looks;
}

std::vector<std::optional<double>> holm(std::span<const std::optional<double>> p_values) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p_values.size(); ++i) {
    if (p_values[i]) order.push_back(i);
  }
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return *p_values[a] < *p_values[b]; });
  std::vector<std::optional<double>> adjusted(p_values.size());
  double highest = 0.0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double tests_left = static_cast<double>(p_values.size() - rank);
    highest = std::max(highest, std::min(1.0, tests_left * *p_values[order[rank]]));
    adjusted[order[rank]] = highest;
  }
  return adjusted;
}

}  // namespace privgrad::core
