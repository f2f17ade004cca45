#include "privgrad/event.hpp"

#include <cmath>
#include <limits>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;

TEST_CASE("events outside their ranges cannot be made", "[event]") {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, nan, infinity}) {
    CHECK_THROWS_AS(Event::gaussian(bad), ConfigError);
    CHECK_THROWS_AS(Event::laplace(bad), ConfigError);
    CHECK_THROWS_AS(Event::discrete_gaussian(bad, 1), ConfigError);
  }
  CHECK_THROWS_AS(Event::zcdp(-0.1), ConfigError);
  CHECK_THROWS_AS(Event::zcdp(nan), ConfigError);
  CHECK_THROWS_AS(Event::poisson_sampled(1.1, Event::gaussian(1)), ConfigError);
  CHECK_THROWS_AS(Event::poisson_sampled(nan, Event::gaussian(1)), ConfigError);
  CHECK_THROWS_AS(Event::sampled_without_replacement(10, 11, Event::gaussian(1)), ConfigError);
  CHECK_THROWS_AS(Event::random_allocation(0, Event::gaussian(1)), ConfigError);
  CHECK_THROWS_AS(Event::self_composed(-1, Event::gaussian(1)), ConfigError);
  const std::vector<Event> runs{Event::gaussian(1)};
  for (const double bad : {0.5, 0.0, -1.0, nan, infinity})
    CHECK_THROWS_AS(Event::repeat_and_select(bad, 1.0, runs), ConfigError);
  for (const double bad : {-1.0, -2.0, nan, -infinity})
    CHECK_THROWS_AS(Event::repeat_and_select(2.0, bad, runs), ConfigError);
  for (const double bad : {0.0, -1.0, nan, infinity})
    CHECK_THROWS_AS(Event::repeat_and_select(bad, RepeatAndSelectEvent::kPoisson, runs),
                    ConfigError);
  CHECK_THROWS_AS(Event::repeat_and_select(2.0, 1.0, {}), ConfigError);
  CHECK_NOTHROW(Event::repeat_and_select(0.5, RepeatAndSelectEvent::kPoisson, runs));
}

TEST_CASE("equality looks at every number and every level", "[event]") {
  const auto make = [](double q, double sigma, int count) {
    return Event::self_composed(count, Event::poisson_sampled(q, Event::gaussian(sigma)));
  };
  CHECK(make(0.1, 1.0, 5) == make(0.1, 1.0, 5));
  CHECK_FALSE(make(0.1, 1.0, 5) == make(0.2, 1.0, 5));
  CHECK_FALSE(make(0.1, 1.0, 5) == make(0.1, 1.1, 5));
  CHECK_FALSE(make(0.1, 1.0, 5) == make(0.1, 1.0, 6));
  CHECK_FALSE(Event::gaussian(1.0) == Event::laplace(1.0));
  const Event epoch = Event::random_allocation(10, Event::gaussian(1.0));
  CHECK(epoch == Event::random_allocation(10, Event::gaussian(1.0)));
  CHECK_FALSE(epoch == Event::random_allocation(11, Event::gaussian(1.0)));
  CHECK_FALSE(epoch == Event::random_allocation(10, Event::gaussian(1.1)));
  CHECK(epoch.name() == "random_allocation");
  const Event best = Event::repeat_and_select(4.0, 1.0, {epoch, Event::gaussian(1.0)});
  CHECK(best == Event::repeat_and_select(4.0, 1.0, {epoch, Event::gaussian(1.0)}));
  CHECK_FALSE(best == Event::repeat_and_select(4.1, 1.0, {epoch, Event::gaussian(1.0)}));
  CHECK_FALSE(best == Event::repeat_and_select(4.0, 1.1, {epoch, Event::gaussian(1.0)}));
  CHECK_FALSE(best == Event::repeat_and_select(4.0, 1.0, {epoch}));
  CHECK(best.name() == "repeat_and_select");
}

TEST_CASE("compose_runs counts equal neighbours and drops what is nothing", "[event]") {
  const Event a = Event::gaussian(1), b = Event::gaussian(2);
  CHECK(compose_runs({a, a, Event::nothing(), b, a}) ==
        Event::composed({Event::self_composed(2, a), b, a}));
  CHECK(compose_runs({a, a, a}) == Event::self_composed(3, a));
  // Epochs are charged at their first steps, and the steps between cost nothing.
  CHECK(compose_runs({a, Event::nothing(), a, Event::nothing()}) == Event::self_composed(2, a));
  CHECK(compose_runs({a}) == a);
  CHECK(compose_runs({}) == Event::nothing());
}

TEST_CASE("flatten multiplies counts through every level", "[event]") {
  const Event a = Event::gaussian(1), b = Event::gaussian(2);
  const auto flat = flatten(
      Event::composed({Event::self_composed(3, Event::composed({Event::self_composed(2, a), b})),
                       Event::self_composed(0, a), b, Event::nothing()}));
  REQUIRE(flat.size() == 2);
  CHECK(flat[0].event == a);
  CHECK(flat[0].count == 6);
  CHECK(flat[1].event == b);
  CHECK(flat[1].count == 4);
  CHECK(flatten(Event::nothing()).empty());
  const Event huge = Event::self_composed(std::numeric_limits<std::int64_t>::max(), a);
  CHECK_THROWS_AS(flatten(Event::self_composed(3, huge)), ConfigError);
}
