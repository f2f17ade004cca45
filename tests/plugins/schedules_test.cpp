#include "house_plugins.hpp"
#include "privgrad/schedule.hpp"

using privgrad::Schedule;
using privgrad::Value;

TEST_CASE("constant: the same value at every step", "[schedule]") {
  const auto schedule = house().create<Schedule>("constant", Value::Object{{"value", 0.25, {}}});
  schedule->start({.steps = 3, .slot = "learning_rate"});
  CHECK(schedule->value(0) == 0.25);
  CHECK(schedule->value(2) == 0.25);
  CHECK_FALSE(schedule->is_shape());
}
