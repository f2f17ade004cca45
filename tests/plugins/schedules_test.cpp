#include <cmath>
#include <vector>

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

namespace {

auto started(const char* name, const Value& params, std::uint64_t steps,
             const char* slot = "learning_rate") {
  auto schedule = house().create<Schedule>(name, params);
  schedule->start({.steps = steps, .slot = slot});
  return schedule;
}

std::vector<double> values(const Schedule& schedule, std::uint64_t steps) {
  std::vector<double> all;
  for (std::uint64_t step = 0; step < steps; ++step) all.push_back(schedule.value(step));
  return all;
}

void check_values(const Schedule& schedule, const std::vector<double>& expected) {
  for (std::size_t step = 0; step < expected.size(); ++step) {
    CHECK_THAT(schedule.value(step), WithinRel(expected[step], 1e-14));
  }
}

Value with_initial(Value params, double initial) {
  params.set("initial", initial);
  return params;
}

const Value kStep = Value::Object{{"factor", 0.5, {}}, {"every", 2, {}}};
const Value kExponential = Value::Object{{"rate", 0.1, {}}};
const Value kPolynomial = Value::Object{{"final", 0.2, {}}, {"power", 2.0, {}}};
const Value kCosine = Value::Object{{"final", 0.2, {}}};

}  // namespace

TEST_CASE("uniform: a flat shape for the core to scale", "[schedule]") {
  const auto schedule = started("uniform", Value::Object{}, 3, "noise_multiplier");
  CHECK(values(*schedule, 3) == std::vector<double>{1.0, 1.0, 1.0});
  CHECK(schedule->is_shape());
  CHECK_THROWS_AS(started("uniform", Value::Object{{"value", 1.0, {}}}, 3), privgrad::ConfigError);
}

TEST_CASE("list: the values as written", "[schedule]") {
  const Value three = Value::Object{{"values", Value::List{3, 0.5, 0}, {}}};
  const auto schedule = started("list", three, 3);
  CHECK(values(*schedule, 3) == std::vector<double>{3.0, 0.5, 0.0});
  CHECK_FALSE(schedule->is_shape());
  CHECK(started("list", three, 2)->value(1) == 0.5);  // a shorter run uses the beginning
  CHECK_THROWS_WITH(started("list", three, 4), ContainsSubstring("3 value(s)"));

  const auto shape = [](Value::List items) {
    return Value::Object{{"values", std::move(items), {}}, {"as_shape", true, {}}};
  };
  CHECK(started("list", shape({1, 2}), 2)->is_shape());
  CHECK_THROWS_AS(started("list", shape({1, 0}), 2), privgrad::ConfigError);
  for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
    CHECK_THROWS_AS(started("list", shape({1.0, bad}), 2), privgrad::ConfigError);
  }
  CHECK_THROWS_AS(started("list", shape({}), 1), privgrad::ConfigError);
  CHECK_THROWS_AS(started("list", Value::Object{{"values", 1.0, {}}}, 1), privgrad::ConfigError);
}

TEST_CASE("list: the last value may hold", "[schedule]") {
  const auto holding = [](Value::List items) {
    return Value::Object{{"values", std::move(items), {}}, {"hold", true, {}}};
  };
  CHECK(values(*started("list", holding({3, 0.5}), 4), 4) ==
        std::vector<double>{3.0, 0.5, 0.5, 0.5});
  CHECK(values(*started("list", holding({3, 0.5}), 1), 1) == std::vector<double>{3.0});
  CHECK(values(*started("list", holding({2}), 3), 3) == std::vector<double>{2.0, 2.0, 2.0});
}

// Expected values: the definitions, written out for five steps.
TEST_CASE("decays: their values", "[schedule]") {
  const std::vector<double> step{1.0, 1.0, 0.5, 0.5, 0.25};
  check_values(*started("step", kStep, 5), step);
  check_values(
      *started("exponential", kExponential, 5),
      {1.0, 0.9048374180359595, 0.8187307530779818, 0.7408182206817179, 0.6703200460356393});
  check_values(*started("polynomial", kPolynomial, 5), {1.0, 0.65, 0.4, 0.25, 0.2});
  const double r = std::sqrt(0.5);
  check_values(*started("cosine", kCosine, 5), {1.0, 0.6 + 0.4 * r, 0.6, 0.6 - 0.4 * r, 0.2});
  // Warm-up of two steps: thirds, then half a cosine over the rest.
  Value warm = kCosine;
  warm.set("warmup", 2);
  check_values(*started("cosine", warm, 5), {1.0 / 3.0, 2.0 / 3.0, 1.0, 0.6, 0.2});
}

TEST_CASE("decays: initial makes them absolute, its absence a shape from 1", "[schedule]") {
  const struct {
    const char* name;
    const Value& params;
  } cases[] = {{"step", kStep},
               {"exponential", kExponential},
               {"polynomial", kPolynomial},
               {"cosine", kCosine}};
  for (const auto& [name, params] : cases) {
    INFO(name);
    const auto shape = started(name, params, 10, "noise_multiplier");
    const auto absolute = started(name, with_initial(params, 4.0), 10, "noise_multiplier");
    CHECK(shape->is_shape());
    CHECK_FALSE(absolute->is_shape());
    CHECK(shape->value(0) == 1.0);
    CHECK(absolute->value(0) == 4.0);
    for (std::uint64_t step = 1; step < 10; ++step) {
      CHECK(shape->value(step) <= shape->value(step - 1));
      CHECK(absolute->value(step) <= absolute->value(step - 1));
    }
    // `final` is absolute if there is an initial value, otherwise relative.
    const bool has_final = params.find("final") != nullptr;
    if (has_final) CHECK(absolute->value(9) == 0.2);
    if (has_final) CHECK(shape->value(9) == 0.2);
    if (!has_final) CHECK_THAT(absolute->value(9), WithinRel(4.0 * shape->value(9), 1e-15));
    for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
      CHECK_THROWS_AS(started(name, with_initial(params, bad), 10), privgrad::ConfigError);
    }
    CHECK_THROWS_AS(started(name, params, 0), privgrad::ConfigError);
    CHECK(started(name, params, 1)->value(0) == 1.0);  // a run of one step
  }
}

TEST_CASE("decays: a long horizon must not end in no noise, or in infinity", "[schedule]") {
  const Value fast = Value::Object{{"rate", 0.1, {}}};
  const Value halving = Value::Object{{"factor", 0.5, {}}, {"every", 1, {}}};
  const Value to_zero = Value::Object{{"final", 0.0, {}}};
  for (const auto& [name, params] :
       std::vector<std::pair<const char*, Value>>{{"exponential", fast},
                                                  {"step", halving},
                                                  {"polynomial", to_zero},
                                                  {"cosine", to_zero}}) {
    INFO(name);
    const Value absolute = with_initial(params, 4.0);
    // exp(-0.1 * 99999) and 2^-99999 underflow; a final of 0 is 0.
    CHECK_THROWS_AS(started(name, params, 100000, "noise_multiplier"), privgrad::ConfigError);
    CHECK_THROWS_WITH(started(name, absolute, 100000, "noise_multiplier"),
                      ContainsSubstring("no noise is no privacy"));
    CHECK_THROWS_AS(started(name, absolute, 100000, "clip_norm"), privgrad::ConfigError);
    // A learning rate may become 0.
    CHECK(started(name, absolute, 100000, "learning_rate")->value(99999) == 0.0);
  }
  const Value rising = Value::Object{{"rate", -0.1, {}}};
  CHECK(started("exponential", rising, 100)->value(99) > 1.0);
  CHECK_THROWS_WITH(started("exponential", rising, 100000), ContainsSubstring("a finite value"));
}

TEST_CASE("decays: parameters out of range", "[schedule]") {
  const auto refused = [](const char* name, Value params, const char* key, const Value& bad) {
    params.set(key, bad);
    CHECK_THROWS_AS(started(name, params, 10), privgrad::ConfigError);
  };
  refused("step", kStep, "factor", 0.0);
  refused("step", kStep, "factor", -0.5);
  refused("step", kStep, "every", 0);
  refused("step", kStep, "every", 1.5);
  refused("exponential", kExponential, "rate", std::nan(""));
  refused("polynomial", kPolynomial, "power", 0.0);
  refused("polynomial", kPolynomial, "final", -1.0);
  refused("cosine", kCosine, "final", -1.0);
  refused("cosine", kCosine, "warmup", -1);
  refused("cosine", kCosine, "warmup", 10);  // no steps would be left for the decay
  CHECK_THROWS_AS(started("exponential", Value::Object{}, 10), privgrad::ConfigError);
}
