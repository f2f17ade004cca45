// Expected values come from closed forms: Student's t with 4 degrees of freedom has P(|T| > t) = 1
// - s (3 - s^2) / 2 with s = t / sqrt(4 + t^2), and with 1 degree it is Cauchy's; sign patterns are
// counted by hand.
#include "privgrad/statistics/paired_statistics.hpp"

#include <array>
#include <cmath>
#include <numbers>
#include <random>

#include "support.hpp"

using namespace privgrad::core;
using Numbers = std::vector<double>;

namespace {

double two_sided_t4(double t) {
  const double s = t / std::sqrt(4.0 + t * t);
  return 1.0 - s * (3.0 - s * s) / 2.0;
}

}  // namespace

TEST_CASE("mean, deviation and interval of five numbers", "[statistics]") {
  const SampleSummary summary = summarize(Numbers{1, 2, 3, 4, 5});
  CHECK(summary.mean == 3.0);
  CHECK_THAT(summary.std.value(), WithinRel(std::sqrt(2.5), 1e-14));
  const auto [low, high] = summary.ci95.value();
  CHECK_THAT(low + high, WithinRel(6.0, 1e-14));
  // The half width is the 97.5 % point of t with 4 degrees, times the standard error.
  const double t = (high - low) / 2.0 / (*summary.std / std::sqrt(5.0));
  CHECK_THAT(two_sided_t4(t), WithinRel(0.05, 1e-9));
}

TEST_CASE("one number has no spread", "[statistics]") {
  const SampleSummary summary = summarize(Numbers{7});
  CHECK(summary.mean == 7.0);
  CHECK_FALSE(summary.std);
  CHECK_FALSE(summary.ci95);
  const PairedComparison comparison = compare_with_zero(Numbers{7});
  CHECK_FALSE(comparison.p);
  CHECK_FALSE(comparison.p_sign_flip);
}

TEST_CASE("Student's test of paired differences", "[statistics]") {
  const PairedComparison five = compare_with_zero(Numbers{1, 2, 3, 4, 5});
  CHECK_THAT(five.p.value(), WithinRel(two_sided_t4(3.0 / std::sqrt(0.5)), 1e-12));
  // Two differences: t = 2 / 1, and P(|Cauchy| > 2) = 1 - 2 atan(2) / pi.
  const PairedComparison two = compare_with_zero(Numbers{1, 3});
  CHECK_THAT(two.p.value(), WithinRel(1.0 - 2.0 * std::atan(2.0) / std::numbers::pi, 1e-12));
  // The sign does not matter.
  CHECK(compare_with_zero(Numbers{-1, -3}).p == two.p);
}

TEST_CASE("sign flips are counted exactly", "[statistics]") {
  // If all have one sign, only this pattern and its opposite count: 2 of 32.
  CHECK(compare_with_zero(Numbers{1, 2, 3, 4, 5}).p_sign_flip == 2.0 / 32.0);
  // |1 + 2 + 3 - 4| = 2: the sums of +-1 +-2 +-3 +-4 are 0 twice, so 14 of 16 are at least 2.
  CHECK(compare_with_zero(Numbers{1, 2, 3, -4}).p_sign_flip == 14.0 / 16.0);
  // Each pattern's sum has size 0.6 or 0, apart from rounding, which depends on the order of
  // addition.
  CHECK(compare_with_zero(Numbers{0.1, 0.2, -0.3}).p_sign_flip == 1.0);
  CHECK_FALSE(compare_with_zero(Numbers(kMostSignFlips + 1, 1.0)).p_sign_flip);
}

TEST_CASE("what sign flips can reach is reached by differences of one sign", "[statistics]") {
  for (const std::size_t pairs : {1u, 2u, 3u, 6u, 20u}) {
    const auto reached = compare_with_zero(Numbers(pairs, 1.0)).p_sign_flip;
    CHECK(reached.value_or(1.0) == least_sign_flip_p(pairs));
  }
}

// For two numbers, Student's t has one degree of freedom (Cauchy): tan(pi c / 2).
TEST_CASE("intervals are Student's, for any confidence", "[statistics]") {
  for (const double confidence : {0.5, 0.95, 0.995}) {
    CHECK_THAT(student_half_width(1, confidence),
               WithinRel(std::tan(std::numbers::pi / 2.0 * confidence), 1e-9));
  }
}

TEST_CASE("differences without spread have no t", "[statistics]") {
  const PairedComparison same = compare_with_zero(Numbers{0, 0, 0});
  CHECK(same.p == 1.0);
  CHECK(same.p_sign_flip == 1.0);
  const PairedComparison constant = compare_with_zero(Numbers{0.1, 0.1, 0.1});
  CHECK_FALSE(constant.p);
  CHECK(constant.p_sign_flip == 0.25);
  CHECK(constant.difference.std == 0.0);
}

TEST_CASE("Holm's correction steps down", "[statistics]") {
  // Sorted: 0.01 x 4, 0.02 x 3, 0.03 x 2, 0.5 x 1; never below the previous result.
  using P = std::vector<std::optional<double>>;
  const P adjusted = holm(P{0.03, 0.01, 0.5, 0.02});
  CHECK_THAT(adjusted[0].value(), WithinRel(0.06, 1e-14));
  CHECK_THAT(adjusted[1].value(), WithinRel(0.04, 1e-14));
  CHECK_THAT(adjusted[2].value(), WithinRel(0.5, 1e-14));
  CHECK_THAT(adjusted[3].value(), WithinRel(0.06, 1e-14));
  CHECK(holm(P{0.9, 0.8}) == P{1.0, 1.0});
  // A missing p-value still counts as a test.
  const P missing = holm(P{0.01, std::nullopt, 0.02});
  CHECK_THAT(missing[0].value(), WithinRel(0.03, 1e-14));
  CHECK_FALSE(missing[1]);
  CHECK_THAT(missing[2].value(), WithinRel(0.04, 1e-14));
}

TEST_CASE("with several looks, an interval and a p are those of a share of the level",
          "[statistics]") {
  const Numbers five{1, 2, 3, 4, 5};
  const auto once = compare_with_zero(five), often = compare_with_zero(five, 4);
  CHECK_THAT(often.p.value(), WithinRel(4.0 * once.p.value(), 1e-12));
  CHECK(often.p_sign_flip == 4.0 * once.p_sign_flip.value());
  const auto [low, high] = often.difference.ci95.value();
  CHECK_THAT(two_sided_t4((high - low) / 2.0 / std::sqrt(0.5)), WithinRel(0.05 / 4.0, 1e-9));
  CHECK(compare_with_zero(Numbers{-1, 1, 2}, 40).p == 1.0);
}

TEST_CASE("stopping where an interval is short enough keeps its promise, all looks together",
          "[statistics]") {
  // Normal pairs with mean 0.3 and standard deviation 1, added until the interval is at most 1
  // wide.
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0.3, 1.0);
  const std::vector<std::size_t> looks = looks_between(5, 80);
  const auto misses = [&](std::size_t corrected) {
    int missed = 0;
    for (int trial = 0; trial < 4000; ++trial) {
      Numbers values;
      std::array<double, 2> ends{};
      for (const std::size_t pairs : looks) {
        while (values.size() < pairs) values.push_back(normal(random));
        ends = summarize(values, corrected).ci95.value();
        if (ends[1] - ends[0] <= 1.0) break;
      }
      missed += ends[0] > 0.3 || ends[1] < 0.3 ? 1 : 0;
    }
    return missed / 4000.0;
  };
  CHECK(misses(looks.size()) <= 0.05);
  CHECK(misses(1) > 0.05);  // Without correction it misses.
}

TEST_CASE("a study that may stop is looked at after doublings", "[statistics]") {
  CHECK(looks_between(5, 40) == std::vector<std::size_t>{5, 10, 20, 40});
  CHECK(looks_between(5, 30) == std::vector<std::size_t>{5, 10, 20, 30});
  CHECK(looks_between(5, 5) == std::vector<std::size_t>{5});
}

TEST_CASE("a mean within a margin is told from one that may be beyond", "[statistics]") {
  // Mean 3, standard error sqrt(0.5): the nearer end of the margin +-5 is at distance 2.
  const SampleSummary five = summarize(Numbers{1, 2, 3, 4, 5});
  CHECK_THAT(equivalence_p(five, 5, 5.0).value(),
             WithinRel(two_sided_t4(2.0 / std::sqrt(0.5)) / 2.0, 1e-12));
  CHECK_THAT(equivalence_p(five, 5, 5.0, 3).value(),
             WithinRel(1.5 * two_sided_t4(2.0 / std::sqrt(0.5)), 1e-12));
  // The mean exceeds the margin by 1.
  CHECK_THAT(equivalence_p(five, 5, 2.0).value(),
             WithinRel(1.0 - two_sided_t4(1.0 / std::sqrt(0.5)) / 2.0, 1e-12));
  CHECK(equivalence_p(five, 5, 3.0) == 0.5);
  CHECK_FALSE(equivalence_p(summarize(Numbers{1, 1}), 2, 2.0));
  CHECK_FALSE(equivalence_p(summarize(Numbers{1}), 1, 2.0));
}

TEST_CASE("how many pairs find an effect of a size: as G*Power 3.1 has it", "[statistics]") {
  // Matched pairs, two-sided, alpha 0.05, power 0.8.
  CHECK(pairs_to_find(0.2, 1.0) == 199u);
  CHECK(pairs_to_find(-0.5, 1.0) == 34u);
  CHECK(pairs_to_find(0.8, 1.0) == 15u);
  CHECK(pairs_to_find(1.0, 2.0) == 34u);
  // ((1.959964 + 0.841621) / 0.01)^2 = 78488.8.
  CHECK(pairs_to_find(0.01, 1.0) == 78489u);
  CHECK(pairs_to_find(1e9, 1.0) == 2u);
  CHECK_FALSE(pairs_to_find(1e-4, 1.0));
}
