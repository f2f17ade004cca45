// The strategies of the aggregator `matrix`, compared with values from another program.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/aggregator.hpp"
#include "privgrad/trust/banded_cost.hpp"
#include "privgrad/trust/correlated_recipes.hpp"

using namespace privgrad;

namespace {

using Json = nlohmann::json;

std::vector<Json> golden(const std::string& name = "matrix.jsonl") {
  std::ifstream file(kSource / "tests/golden" / name);
  REQUIRE(file);
  std::vector<Json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(Json::parse(line));
  return cases;
}

struct Case {
  std::uint64_t steps, participations;
  std::string workload;

  explicit Case(const Json& given)
      : steps(given.at("steps")),
        participations(given.at("participations")),
        workload(given.at("workload")) {}
  std::uint64_t spacing() const { return steps / participations; }
  double momentum() const { return workload == "momentum" ? 0.9 : 0.0; }
  /// Returns the weight of a step in the iterates.
  double weight(std::uint64_t step) const {
    return workload == "decay" ? 1.0 - static_cast<double>(step) / static_cast<double>(steps) : 1.0;
  }
};

/// Returns a started aggregator, with noise multiplier 1.
ComponentPtr<Aggregator> started(const Case& shape, Value::Object params) {
  params.push_back({"momentum", Value(shape.momentum()), {}});
  params.push_back({"participations", Value(static_cast<std::int64_t>(shape.participations)), {}});
  if (shape.workload == "decay") params.push_back({"workload", Value("learning_rate"), {}});
  auto aggregator = house().create<Aggregator>("matrix", params);
  std::vector<double> noise(shape.steps, 1.0), clip_norms(shape.steps, 3.0), rates;
  for (std::uint64_t step = 0; step < shape.steps; ++step) rates.push_back(shape.weight(step));
  RunFacts facts;
  facts.steps = shape.steps;
  facts.dataset_size = 1;
  const AggregationPlan plan{.steps = shape.steps,
                             .noise_multipliers = noise,
                             .clip_norms = clip_norms,
                             .learning_rates = rates,
                             .facts = facts};
  auto& numbers = *aggregator;
  numbers.use(numbers.optimized(plan));
  aggregator->start(plan);
  return aggregator;
}

ComponentPtr<Aggregator> started(const Json& given, bool as_given) {
  const std::string strategy = given.at("strategy");
  Value::Object params;
  if (as_given && given.contains("coefficients")) {
    Value::List list;
    for (const double a : given.at("coefficients")) list.push_back(Value(a));
    params = {{"strategy", Value("coefficients"), {}}, {"coefficients", Value(list), {}}};
  } else {
    params = {{"strategy", Value(strategy), {}},
              {"bands", Value(given.at("bands").get<std::int64_t>()), {}}};
  }
  return started(Case(given), params);
}

struct Errors {
  double squares = 0.0;  // ||A N||_F^2
  double last = 0.0;     // the squared norm of the last row
};

/// Computes, only from the recipes, the effect of each step's noise on all iterates, one step after
/// another.
Errors errors_of(const Case& shape, const Aggregator& aggregator, std::uint64_t window) {
  std::vector<ReleaseRecipe> recipes;
  for (std::uint64_t step = 0; step < shape.steps; ++step)
    recipes.push_back(aggregator.recipe(step));
  Errors errors;
  for (std::uint64_t node = 0; node < shape.steps; ++node) {
    double iterate = 0.0, velocity = 0.0;
    for (std::uint64_t step = node; step < shape.steps; ++step) {
      double release = 0.0;
      if (step <= node + window) {
        for (const NoiseTerm& term : recipes[step].noise)
          if (term.node == node) release = term.multiplier * shape.weight(step);
      }
      // A_tu = 1 - momentum^(t-u+1)
      velocity = shape.momentum() * velocity + (1.0 - shape.momentum()) * release;
      iterate += velocity;
      errors.squares += iterate * iterate;
    }
    errors.last += iterate * iterate;
  }
  return errors;
}

/// Returns the squared sensitivity, as it would be charged, to a row that takes part as the shape
/// defines.
double charged(const Case& shape, const Aggregator& aggregator) {
  std::vector<std::vector<std::uint32_t>> order(shape.steps);
  for (std::uint64_t i = 0; i < shape.participations; ++i) order[i * shape.spacing()] = {0};
  const auto recipes = core::CorrelatedRecipes::of(aggregator, shape.steps);
  if (!recipes) return static_cast<double>(shape.participations);
  const auto cost = core::cost_of(*recipes, core::Participation(1, order));
  CHECK(cost.is_attained);
  return cost.of_groups.front();
}

struct Ratios {
  double rmse, last;
};

Ratios ratios_of(const Case& shape, const Aggregator& aggregator) {
  const ComponentPtr<Aggregator> independent = house().create<Aggregator>("gaussian", {});
  const std::vector<double> noise(shape.steps, 1.0);
  independent->start({.steps = shape.steps, .noise_multipliers = noise});
  const Errors ours = errors_of(shape, aggregator, aggregator.window());
  const Errors plain = errors_of(shape, *independent, 0);
  const double cost = charged(shape, aggregator) / static_cast<double>(shape.participations);
  return {std::sqrt(ours.squares / plain.squares * cost), std::sqrt(ours.last / plain.last * cost)};
}

/// Returns error times charged sensitivity of a banded strategy, relative to independent noise.
double banded_ratio(const Case& shape, const Aggregator& aggregator) {
  const ComponentPtr<Aggregator> independent = house().create<Aggregator>("gaussian", {});
  const std::vector<double> noise(shape.steps, 1.0);
  independent->start({.steps = shape.steps, .noise_multipliers = noise});
  const Errors ours = errors_of(shape, aggregator, aggregator.window());
  const Errors plain = errors_of(shape, *independent, 0);
  const auto strategy = aggregator.strategy();
  const auto recipes = core::CorrelatedRecipes::of(aggregator, shape.steps);
  return std::sqrt(ours.squares / plain.squares) /
         core::banded_multipliers(*recipes, strategy).front();
}

}  // namespace

TEST_CASE("matrix: error and charge of given coefficients are those of the reference values",
          "[aggregator][matrix][privacy]") {
  int compared = 0;
  for (const Json& given : golden()) {
    const Case shape(given);
    // 5 * 10^7 products each: one of the long cases is enough.
    if (shape.steps > 1000 && given.at("bands") != 4) continue;
    INFO(given.dump());
    if (given.at("strategy") == "cgd") continue;  // the file lacks its coefficient
    const Ratios found = ratios_of(shape, *started(given, true));
    CHECK_THAT(found.rmse, WithinRel(given.at("rmse").get<double>(), 1e-9));
    CHECK_THAT(found.last, WithinRel(given.at("last").get<double>(), 1e-9));
    ++compared;
  }
  CHECK(compared > 90);
}

TEST_CASE("matrix: the strategies that it optimises are as good as the reference values",
          "[aggregator][matrix]") {
  for (const Json& given : golden()) {
    const Case shape(given);
    if (shape.steps > 1000 || given.at("strategy") == "bisr") continue;
    INFO(given.dump());
    const Ratios found = ratios_of(shape, *started(given, false));
    // With two bands there is a single minimum; with more bands, either program may have found a
    // worse minimum.
    const bool is_unique = given.at("bands") == 2;
    CHECK(found.rmse <= given.at("rmse").get<double>() * (is_unique ? 1.0 + 1e-9 : 1.002));
  }
}

TEST_CASE("matrix: banded strategies are as good as the reference values, given or optimised",
          "[aggregator][matrix][banded]") {
  int compared = 0;
  for (const Json& given : golden("banded.jsonl")) {
    const auto bands = given.at("bands").get<std::size_t>();
    // A release has the noise of twice as many steps as the strategy has bands.
    if (given.at("steps") != 1000 || given.at("terms") != std::min<std::size_t>(16, 2 * bands))
      continue;
    INFO(given.dump());
    Json as_case = given;
    as_case["participations"] = 1;
    const Case shape(as_case);
    Value::List list;
    for (const double c : given.at("c")) list.push_back(Value(c));
    const Value::Object as_given{{"form", Value("banded"), {}},
                                 {"strategy", Value("coefficients"), {}},
                                 {"coefficients", Value(list), {}}};
    const Value::Object learned{{"form", Value("banded"), {}},
                                {"bands", Value(static_cast<std::int64_t>(bands)), {}}};
    const double expected = given.at("ratio");
    CHECK_THAT(banded_ratio(shape, *started(shape, as_given)), WithinRel(expected, 1e-9));
    CHECK(banded_ratio(shape, *started(shape, learned)) <= expected * 1.002);
    ++compared;
  }
  CHECK(compared == 8);
}

TEST_CASE("matrix: optimised coefficients do not depend on the scale of the noise, and stay",
          "[aggregator][matrix]") {
  const auto aggregator = house().create<Aggregator>("matrix", {});
  auto& numbers = *aggregator;
  const auto plan_with = [](const std::vector<double>& noise) {
    AggregationPlan plan{.steps = noise.size(), .noise_multipliers = noise};
    plan.facts.steps = noise.size();
    plan.facts.dataset_size = 40;
    plan.facts.batch_size = 10.0;
    return plan;
  };
  const std::vector<double> noise{1.0, 0.75, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125};
  std::vector<double> twice = noise;
  for (double& value : twice) value *= 2.0;
  const std::vector<double> found = numbers.optimized(plan_with(noise));
  CHECK(numbers.optimized(plan_with(twice)) == found);
  REQUIRE(found.size() == 4);
  numbers.use(found);
  aggregator->start(plan_with(noise));
  CHECK(aggregator->window() == 3);
  // a_j times the noise of the step to which it belongs.
  CHECK(aggregator->recipe(5).noise.at(1).multiplier == found[1] * 0.25);
  CHECK(aggregator->recipe(5).noise.at(1).node == 4);
  CHECK(aggregator->recipe(0).noise.size() == 1);
}

TEST_CASE("matrix: says what is wrong with its parameters", "[aggregator][matrix]") {
  const auto refusal = [](Value::Object params) -> std::string {
    try {
      house().create<Aggregator>("matrix", params);
    } catch (const ConfigError& problem) {
      return problem.what();
    }
    return "";
  };
  const auto list = [](std::vector<double> values) {
    Value::List items;
    for (const double value : values) items.push_back(Value(value));
    return Value(items);
  };
  const auto given = [&](std::vector<double> values) {
    return Value::Object{{"strategy", Value("coefficients"), {}},
                         {"coefficients", list(std::move(values)), {}}};
  };
  CHECK(refusal(given({1, -0.5})).empty());
  CHECK_THAT(refusal(given({2, -0.5})), ContainsSubstring("begin with 2, expected 1"));
  CHECK_THAT(refusal(given(std::vector<double>(17, 1.0))), ContainsSubstring("at most 16"));
  CHECK_THAT(refusal({{"coefficients", list({1, -0.5}), {}}}),
             ContainsSubstring("belong together"));
  CHECK_THAT(refusal({{"strategy", Value("coefficients"), {}}}),
             ContainsSubstring("belong together"));
  CHECK_THAT(refusal({{"strategy", Value("bsr"), {}}}), ContainsSubstring("bisr"));
  CHECK_THAT(refusal({{"bands", Value(17), {}}}), ContainsSubstring("16"));
  const auto aggregator = house().create<Aggregator>("matrix", {});
  auto& numbers = *aggregator;
  CHECK_THROWS_AS(numbers.use(std::vector<double>{1.0, -0.5}), ConfigError);
  const std::vector<double> noise(4, 1.0);
  CHECK_THROWS_WITH(numbers.optimized({.steps = 4, .noise_multipliers = noise}),
                    ContainsSubstring("give participations"));
}
