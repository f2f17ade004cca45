#include "privgrad/joint_gaussian.hpp"

#include <cmath>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

Event noise(double z) { return Event::gaussian(z); }

/// Checks that the interval contains the true value, and is only as wide as a few rounding errors.
void check_joint(const Event& event, double expected, double relative = 1e-14) {
  const auto joint = joint_gaussian(event);
  REQUIRE(joint);
  INFO(joint->low << " .. " << joint->high << ", expected " << expected);
  CHECK(joint->low < joint->high);
  CHECK(joint->low <= expected);
  CHECK(expected <= joint->high);
  CHECK(joint->high - joint->low <= relative * expected);
}

}  // namespace

TEST_CASE("Gaussians on one batch are one, with the precisions added up", "[event]") {
  // 1/3^2 + 1/4^2 = (5/12)^2, and the square roots of 4, 9 and 2^40 are whole numbers.
  check_joint(Event::composed({noise(3.0), noise(4.0)}), 2.4);
  check_joint(Event::self_composed(4, noise(3.0)), 1.5);
  check_joint(Event::self_composed(9, Event::composed({noise(3.0), noise(4.0)})), 0.8);
  check_joint(Event::self_composed(std::int64_t{1} << 40, noise(1.0)), std::ldexp(1.0, -20));
}

TEST_CASE("one Gaussian stays what it is, to the last digit", "[event]") {
  for (const double z : {0.1, 1.1, 1e-300, 1e300}) {
    for (const Event& event : {noise(z), Event::self_composed(1, noise(z)),
                               Event::composed({noise(z), Event::nothing()})}) {
      CHECK(joint_gaussian(event)->low == z);
      CHECK(joint_gaussian(event)->high == z);
    }
  }
}

TEST_CASE("no noise multiplier is so small or large that the joint one is lost", "[event]") {
  // The squares of these are not doubles; 1e-320 is below the normal range.
  for (const double z : {1e-200, 1e200, 1e300})
    check_joint(Event::self_composed(4, noise(z)), z / 2);
  check_joint(Event::composed({noise(1e200), noise(1e-200)}), 1e-200);
  const auto tiny = joint_gaussian(Event::self_composed(4, noise(4e-320)));
  CHECK(tiny->low <= 2e-320);
  CHECK(tiny->high >= 2e-320);
}

TEST_CASE("many roundings are all in the interval", "[event]") {
  std::vector<Event> many;
  for (int i = 0; i < 20'000; ++i) {
    many.push_back(noise(3.0));
    many.push_back(noise(4.0));
  }
  check_joint(Event::composed(many), 2.4 / std::sqrt(20'000.0), 1e-10);
}

TEST_CASE("nothing, no noise, and what is not a Gaussian", "[event]") {
  CHECK(std::isinf(joint_gaussian(Event::nothing())->low));
  CHECK(std::isinf(joint_gaussian(Event::self_composed(0, noise(1.0)))->low));
  CHECK(joint_gaussian(Event::composed({noise(1.0), Event::non_private()}))->low == 0.0);
  CHECK(joint_gaussian(Event::composed({Event::non_private(), noise(1.0)}))->high == 0.0);
  for (const Event& other :
       {Event::laplace(1.0), Event::zcdp(0.1), Event::discrete_gaussian(1.0, 1),
        Event::poisson_sampled(0.5, noise(1.0)), Event::unsupported("a mystery")}) {
    CHECK_FALSE(joint_gaussian(Event::composed({noise(1.0), other})));
    CHECK_FALSE(joint_gaussian(Event::composed({Event::non_private(), other})));
  }
}
