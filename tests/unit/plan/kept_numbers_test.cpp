#include "privgrad/plan/kept_numbers.hpp"

#include <string>
#include <vector>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using core::KeptNumbers;

namespace {

using Values = std::vector<double>;

Values times(Values values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

constexpr double kRounding = 1.0 + 1e-12;

}  // namespace

TEST_CASE(
    "kept numbers: a plan that is made again has the scales of the first, and searches none") {
  KeptNumbers first;
  CHECK(first.scale([] { return 1.5; }) == 1.5);
  CHECK(first.scale([] { return 2.5; }) == 2.5);
  KeptNumbers again(first.scales());
  const auto never = []() -> double { throw Error("searched"); };
  CHECK(again.scale(never) == 1.5);
  CHECK(again.scale(never) == 2.5);
  CHECK(again.scales() == first.scales());
  CHECK_THROWS_AS(again.scale(never), ConfigError);
}

TEST_CASE("kept numbers: a schedule that is rounded otherwise is the one of the first plan") {
  const Values falling{1.0, 0.7, 0.4}, constant{3.0, 3.0, 3.0};
  KeptNumbers first;
  CHECK(first.schedule("learning_rate", falling) == falling);
  CHECK(first.schedule("clip_norm", constant) == constant);
  KeptNumbers again({}, {}, first.schedules_text());
  CHECK(again.schedule("learning_rate", times(falling, kRounding)) == falling);
  CHECK(again.schedule("clip_norm", times(constant, kRounding)) == constant);
  CHECK(again.schedules_text() == first.schedules_text());
}

TEST_CASE(
    "kept numbers: what is not a rounding is given back, and nothing is taken for another slot") {
  const Values falling{1.0, 0.7, 0.4};
  KeptNumbers first;
  first.schedule("learning_rate", falling);
  KeptNumbers again({}, {}, first.schedules_text());
  for (const Values& other : {times(falling, 1.0 + 1e-5), Values{1.0, 0.7}, Values{1.0, 0.7, 0.5}})
    CHECK(again.schedule("learning_rate", other) == other);
  const Values near = times(falling, kRounding);
  CHECK(again.schedule("clip_norm", near) == near);
}

TEST_CASE("kept numbers: owners whose schedules are nearly alike each have their own") {
  // The difference between a server and its clients: in a first plan, nothing counts as rounding.
  const Values server{0.5, 0.4}, client = times(server, 1.0 + 1e-7);
  KeptNumbers first;
  CHECK(first.schedule("learning_rate", server) == server);
  CHECK(first.schedule("learning_rate", client) == client);
  KeptNumbers again({}, {}, first.schedules_text());
  CHECK(again.schedule("learning_rate", times(client, kRounding)) == client);
  CHECK(again.schedule("learning_rate", times(server, kRounding)) == server);
}

TEST_CASE("kept numbers: what no run writes is refused") {
  for (const double scale : {0.0, -1.0, 1.0 / 0.0, 0.0 / 0.0})
    CHECK_THROWS_AS(KeptNumbers({scale}), ConfigError);
  KeptNumbers first;
  first.schedule("learning_rate", {1.0, 0.5});
  const std::string text = first.schedules_text();
  for (std::size_t length = 1; length < text.size(); ++length)
    CHECK_THROWS_AS(KeptNumbers({}, {}, text.substr(0, length)), IoError);
  CHECK_THROWS_AS(KeptNumbers({}, {}, text + "x"), IoError);
}

TEST_CASE("kept numbers: what an aggregator optimises is found once, and kept") {
  KeptNumbers first;
  CHECK(first.optimized().empty());
  CHECK(first.optimized([] { return Values{1.0, -0.5}; }) == Values{1.0, -0.5});
  KeptNumbers again({}, first.optimized());
  CHECK(again.optimized([]() -> Values { throw PluginError("searched again"); }) ==
        Values{1.0, -0.5});
  KeptNumbers without({1.0});
  CHECK(without.optimized([] { return Values{1.0}; }).empty());
  CHECK_THROWS_AS(KeptNumbers({}, {0.0 / 0.0}), ConfigError);
}
