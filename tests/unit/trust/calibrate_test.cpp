#include "privgrad/trust/calibrate.hpp"
#include <cmath>
#include <limits>

#include "privgrad/error.hpp"
#include "support.hpp"

using privgrad::core::proved_scale;
using privgrad::core::smallest_scale;

TEST_CASE("the scale meets the target from below and is the smallest that does",
          "[calibrate][privacy]") {
  // epsilon = c / scale^2 has the closed form scale = sqrt(c / target).
  for (const double c : {1e-9, 1.0, 7.3, 1e12}) {
    for (const double target : {1e-6, 0.5, 4.0, 1e4}) {
      const auto epsilon_at = [&](double scale) { return c / (scale * scale); };
      const double scale = smallest_scale(epsilon_at, target);
      CHECK(epsilon_at(scale) <= target);
      CHECK_THAT(scale, WithinRel(std::sqrt(c / target), 1e-10));
    }
  }
}

TEST_CASE("steps, plateaus and infinities do not lead above the target", "[calibrate][privacy]") {
  const auto staircase = [](double scale) { return std::ceil(10.0 / scale); };
  CHECK(staircase(smallest_scale(staircase, 3.5)) <= 3.5);
  const auto infinite_below = [](double scale) {
    return scale < 3.0 ? std::numeric_limits<double>::infinity() : 1.0 / scale;
  };
  const double scale = smallest_scale(infinite_below, 2.0);
  CHECK(infinite_below(scale) <= 2.0);
  CHECK_THAT(scale, WithinRel(3.0, 1e-9));
}

TEST_CASE("a smooth accountant is asked a dozen times, not a hundred", "[calibrate]") {
  int asked = 0;
  const auto epsilon_at = [&](double scale) {
    ++asked;
    return 5.0 / scale + 3.0 / (scale * scale);
  };
  smallest_scale(epsilon_at, 0.7);
  CHECK(asked <= 14);
}

TEST_CASE("the largest count meets the target and one more does not", "[calibrate][privacy]") {
  using privgrad::core::largest_count;
  for (const std::uint64_t expected : {0u, 1u, 2u, 3u, 314u, 1000000u}) {
    const auto epsilon_at = [](std::uint64_t count) { return static_cast<double>(count) * 0.01; };
    CHECK(largest_count(epsilon_at, static_cast<double>(expected) * 0.01) == expected);
    CHECK(largest_count(epsilon_at, static_cast<double>(expected) * 0.01 + 0.005) == expected);
  }
  CHECK_THROWS_AS(largest_count([](std::uint64_t) { return 0.0; }, 1.0), privgrad::PrivacyError);
}

TEST_CASE("a target that no noise meets is refused", "[calibrate]") {
  CHECK_THROWS_AS(smallest_scale([](double) { return 5.0; }, 4.0), privgrad::PrivacyError);
}

TEST_CASE("a search for noise ends where noise protects nobody", "[calibrate][privacy]") {
  using privgrad::core::exposing_noise;
  // The loss of a release is N(1/(2 s^2), 1/s^2): three standard deviations below its mean it
  // equals epsilon, so it exceeds epsilon with probability Phi(3).
  for (const double epsilon : {0.0, 0.1, 1.0, 8.0, 1000.0}) {
    const double noise = exposing_noise(epsilon);
    CHECK_THAT(0.5 / (noise * noise) - 3.0 / noise, WithinAbs(epsilon, 1e-9 * (1.0 + epsilon)));
  }
  int asked = 0;
  const auto met_by_any = [&](double) {
    ++asked;
    return 0.0;
  };
  CHECK(smallest_scale(met_by_any, 1.0, 0.158) == 0.158);
  CHECK(asked <= 4);
  CHECK(smallest_scale([](double scale) { return 8.0 / scale; }, 1.0, 4.0) ==
        Catch::Detail::Approx(8.0));
}

TEST_CASE("an estimate finds the scale, and two proofs raise it", "[calibrate][privacy]") {
  // The proved cost is slightly above the estimate: an inverse square, plus a relative 3e-7. The
  // scale for a target of 2 is then sqrt((1 + 3e-7) / 2).
  std::uint64_t asked = 0;
  const auto estimated = [](double scale) { return 1.0 / (scale * scale); };
  const auto proved = [&](double scale) {
    ++asked;
    return (1.0 + 3e-7) / (scale * scale);
  };
  const double scale = proved_scale(estimated, proved, 2.0);
  CHECK(asked == 2);
  CHECK(proved(scale) <= 2.0);
  CHECK_THAT(scale, WithinRel(std::sqrt((1.0 + 3e-7) / 2.0), 5e-8));
}

TEST_CASE("whatever the estimate says, the proof meets the target", "[calibrate][privacy]") {
  const auto proved = [](double scale) { return 1.0 / scale; };
  // A first scale that is far too small, a first scale without a slope, a first scale that is too
  // large, and proofs with jumps.
  CHECK_THAT(proved_scale([](double scale) { return 1e-3 / scale; }, proved, 2.0),
             WithinRel(0.5, 1e-7));
  CHECK_THAT(proved_scale([](double scale) { return scale < 0.25 ? 1e9 : 1.0; }, proved, 2.0),
             WithinRel(0.5, 1e-7));
  CHECK(proved_scale([](double scale) { return 1.4 / scale; }, proved, 2.0) == 0.7);
  const auto staircase = [](double scale) { return std::ceil(10.0 / scale); };
  CHECK(staircase(proved_scale([](double scale) { return 9.0 / scale; }, staircase, 3.5)) <= 3.5);
  CHECK_THROWS_AS(proved_scale(
                      proved, [](double) { return 3.0; }, 2.0),
                  privgrad::PrivacyError);
}
