#include <limits>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/aggregator.hpp"

using privgrad::Aggregator;
using privgrad::Value;

TEST_CASE("gaussian: each step has one node of its own with the step's multiplier",
          "[aggregator]") {
  const auto aggregator = house().create<Aggregator>("gaussian", Value::Object{});
  const std::vector<double> sigma{1.5, 0.5, 2.0};
  aggregator->start({.steps = 3, .noise_multipliers = sigma});
  for (std::uint64_t t = 0; t < 3; ++t) {
    const auto recipe = aggregator->recipe(t);
    CHECK(recipe.keep == 0.0);
    CHECK(recipe.keep_noise == 0.0);
    REQUIRE(recipe.noise.size() == 1);
    CHECK(recipe.noise[0].node == t);  // distinct, so the noises are independent
    CHECK(recipe.noise[0].multiplier == sigma[t]);
  }

  SECTION("it can be started again while a schedule is calibrated") {
    const std::vector<double> other{7.0};
    aggregator->start({.steps = 1, .noise_multipliers = other});
    CHECK(aggregator->recipe(0).noise[0].multiplier == 7.0);
  }
}

TEST_CASE("gaussian: noise multipliers that are no noise are refused", "[aggregator]") {
  const auto aggregator = house().create<Aggregator>("gaussian", Value::Object{});
  const double inf = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, inf, std::numeric_limits<double>::quiet_NaN()}) {
    const std::vector<double> sigma{1.0, bad};
    CHECK_THROWS_AS(aggregator->start({.steps = 2, .noise_multipliers = sigma}),
                    privgrad::ConfigError);
  }
  const std::vector<double> one{1.0};
  CHECK_THROWS_WITH(aggregator->start({.steps = 2, .noise_multipliers = one}),
                    ContainsSubstring("1 noise multiplier(s) for 2 step(s)"));
}

TEST_CASE("discrete_gaussian: each step has one node of its own, on the grid", "[aggregator]") {
  const auto aggregator =
      house().create<Aggregator>("discrete_gaussian", Value::Object{{"grid_levels", 1000, {}}});
  const std::vector<double> sigma{1.5, 0.5};
  aggregator->start({.steps = 2, .noise_multipliers = sigma});
  for (std::uint64_t t = 0; t < 2; ++t) {
    const auto recipe = aggregator->recipe(t);
    CHECK(recipe.grid_levels == 1000);
    CHECK(recipe.keep == 0.0);
    CHECK(recipe.keep_noise == 0.0);
    REQUIRE(recipe.noise.size() == 1);
    CHECK(recipe.noise[0].node == t);
    CHECK(recipe.noise[0].multiplier == sigma[t]);
  }
  const std::vector<double> bad{1.0, 0.0};
  CHECK_THROWS_AS(aggregator->start({.steps = 2, .noise_multipliers = bad}), privgrad::ConfigError);
  CHECK_THROWS_AS(aggregator->start({.steps = 3, .noise_multipliers = sigma}),
                  privgrad::ConfigError);
}

TEST_CASE("discrete_gaussian: a grid that 64-bit sums have no room for is refused",
          "[aggregator]") {
  for (const std::int64_t levels : {std::int64_t{0}, (std::int64_t{1} << 28) + 1}) {
    CHECK_THROWS_AS(
        house().create<Aggregator>("discrete_gaussian", Value::Object{{"grid_levels", levels, {}}}),
        privgrad::ConfigError);
  }
}
