// Expected values come from closed forms: Student's t with 4 degrees of freedom has
// P(|T| > t) = 1 - s (3 - s^2) / 2 with s = t / sqrt(4 + t^2), with 1 degree it is Cauchy's; sign
// patterns are counted by hand.
#include "privgrad/statistics/paired_statistics.hpp"

#include <cmath>
#include <numbers>

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
  // All of one sign: that pattern and its opposite only, 2 of 32.
  CHECK(compare_with_zero(Numbers{1, 2, 3, 4, 5}).p_sign_flip == 2.0 / 32.0);
  // |1 + 2 + 3 - 4| = 2: the sums of +-1 +-2 +-3 +-4 are 0 twice, so 14 of 16 are at least 2.
  CHECK(compare_with_zero(Numbers{1, 2, 3, -4}).p_sign_flip == 14.0 / 16.0);
  // The sums are those of 0.1 + 0.2 - 0.3 in other orders: all of size 0.6 or 0, rounding or not.
  CHECK(compare_with_zero(Numbers{0.1, 0.2, -0.3}).p_sign_flip == 1.0);
  CHECK_FALSE(compare_with_zero(Numbers(kMostSignFlips + 1, 1.0)).p_sign_flip);
}

TEST_CASE("what sign flips can reach is reached by differences of one sign", "[statistics]") {
  for (const std::size_t pairs : {1u, 2u, 3u, 6u, 20u}) {
    const auto reached = compare_with_zero(Numbers(pairs, 1.0)).p_sign_flip;
    CHECK(reached.value_or(1.0) == least_sign_flip_p(pairs));
  }
}

// Student's t has one degree of freedom for two numbers, which is Cauchy's law: tan(pi c / 2).
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
  // Sorted: 0.01 x 4, 0.02 x 3, 0.03 x 2, 0.5 x 1; never below the one before.
  using P = std::vector<std::optional<double>>;
  const P adjusted = holm(P{0.03, 0.01, 0.5, 0.02});
  CHECK_THAT(adjusted[0].value(), WithinRel(0.06, 1e-14));
  CHECK_THAT(adjusted[1].value(), WithinRel(0.04, 1e-14));
  CHECK_THAT(adjusted[2].value(), WithinRel(0.5, 1e-14));
  CHECK_THAT(adjusted[3].value(), WithinRel(0.06, 1e-14));
  CHECK(holm(P{0.9, 0.8}) == P{1.0, 1.0});
  // What has no p is a test all the same.
  const P missing = holm(P{0.01, std::nullopt, 0.02});
  CHECK_THAT(missing[0].value(), WithinRel(0.03, 1e-14));
  CHECK_FALSE(missing[1]);
  CHECK_THAT(missing[2].value(), WithinRel(0.04, 1e-14));
}
