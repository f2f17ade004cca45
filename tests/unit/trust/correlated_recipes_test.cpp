#include "privgrad/trust/correlated_recipes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

#include "fake_aggregator.hpp"
#include "house_plugins.hpp"
#include "privgrad/plan/correlated_plan.hpp"
#include "release_matrices.hpp"
#include "test_random.hpp"
#include "trust_support.hpp"

using namespace privgrad;
using core::CorrelatedCost;
using core::CorrelatedRecipes;
using core::Participation;

namespace {

using Members = std::vector<std::uint32_t>;

struct Case {
  std::string name;
  ComponentPtr<Aggregator> aggregator;
};

Value::Object options(double momentum, int restart, bool completion, bool reduced) {
  Value::Object params;
  if (momentum < 1.0) params.push_back({"momentum", Value(momentum), {}});
  if (restart > 0) params.push_back({"restart_every", Value(restart), {}});
  params.push_back({"completion", Value(completion), {}});
  params.push_back({"variance_reduction", Value(reduced), {}});
  return params;
}

std::vector<Value::Object> all_options() {
  std::vector<Value::Object> all;
  for (const double momentum : {1.0, 0.9}) {
    for (const bool reduced : {false, true}) {
      all.push_back(options(momentum, 0, false, reduced));
      all.push_back(options(momentum, 11, false, reduced));
      all.push_back(options(momentum, 11, true, reduced));
    }
  }
  return all;
}

/// Returns orders of `rows` examples over `steps` steps with batches of `batch`.
std::vector<Participation> orders(std::uint64_t rows, std::uint64_t batch, std::uint64_t steps) {
  std::vector<Participation> all;
  for (const char* name : {"sequential", "shuffle"}) {
    const auto sampler = house().create<Sampler>(
        name, Value::Object{{"batch_size", Value(static_cast<std::int64_t>(batch)), {}}});
    sampler->start({.dataset_size = rows, .steps = steps, .adjacency = Adjacency::replace_one});
    all.push_back(Participation::drawn(dynamic_cast<PublicOrder&>(*sampler), steps, TestRandom(5)));
  }
  const auto full = house().create<Sampler>("full_batch", Value::Object{});
  full->start({.dataset_size = rows, .steps = steps, .adjacency = Adjacency::zero_out});
  all.push_back(Participation::drawn(dynamic_cast<PublicOrder&>(*full), steps, TestRandom(5)));
  return all;
}

/// Returns the largest change of the first `steps` releases by group g, by dense linear algebra:
/// all its contributions are equal, which is the worst case if R has no negative entry.
double by_brute_force(const ReleaseMatrices& matrices, const Participation& order,
                      std::uint32_t group, std::size_t steps) {
  std::vector<double> u(steps, 0.0);
  for (std::size_t t = 0; t < steps; ++t) {
    for (std::size_t step = 0; step < steps; ++step) {
      const auto members = order.at(step);
      if (std::find(members.begin(), members.end(), group) != members.end())
        u[t] += matrices.data[t][step];
    }
  }
  return squared_length_under(covariance(matrices, steps), u);
}

}  // namespace

TEST_CASE("correlated releases cost what the whole matrix says, for every example and order",
          "[correlated][privacy]") {
  constexpr std::uint64_t kSteps = 41, kRows = 12;
  for (const Value::Object& params : all_options()) {
    const auto aggregator = tree(kSteps, params, 1.5);
    const auto matrices = release_matrices(*aggregator, kSteps);
    const auto recipes = CorrelatedRecipes::of(*aggregator, kSteps);
    REQUIRE(recipes);
    for (const std::uint64_t batch : {1, 5}) {
      for (const Participation& order : orders(kRows, batch, kSteps)) {
        const CorrelatedCost cost = cost_of(*recipes, order);
        double worst = 0.0;
        for (std::uint32_t group = 0; group < order.groups(); ++group) {
          const double expected = by_brute_force(matrices, order, group, kSteps);
          CHECK_THAT(cost.of_groups[group], WithinRel(expected, 1e-9));
          worst = std::max(worst, expected);
        }
        CHECK_THAT(cost.worst_after.back(), WithinRel(worst, 1e-9));
        CHECK(cost.worst_after.back() >=
              *std::max_element(cost.of_groups.begin(), cost.of_groups.end()));
      }
    }
  }
}

TEST_CASE("correlated releases: a run that ends early has cost the worst of its own steps",
          "[correlated][privacy]") {
  constexpr std::uint64_t kSteps = 23;
  const auto aggregator = tree(kSteps, options(0.9, 9, true, true), 1.5);
  const auto matrices = release_matrices(*aggregator, kSteps);
  const auto recipes = CorrelatedRecipes::of(*aggregator, kSteps);
  for (const Participation& order : orders(7, 2, kSteps)) {
    const CorrelatedCost cost = cost_of(*recipes, order);
    for (std::size_t steps = 1; steps <= kSteps; ++steps) {
      double worst = 0.0;
      for (std::uint32_t group = 0; group < order.groups(); ++group)
        worst = std::max(worst, by_brute_force(matrices, order, group, steps));
      CHECK_THAT(cost.worst_after[steps - 1], WithinRel(worst, 1e-9));
    }
  }
}

TEST_CASE("correlated releases: no contributions move a release further than is charged",
          "[correlated][privacy]") {
  // Shares beyond 1 and negative ones: R has entries of both signs, and equal contributions are not
  // the worst case. All signs are tried.
  constexpr std::uint64_t kSteps = 9;
  const ScriptedAggregator aggregator([](std::uint64_t t) {
    ReleaseRecipe recipe{.keep = 0.8, .earlier = {}, .noise = {{t, 1.0 + 0.1 * double(t)}}};
    if (t >= 2) recipe.earlier = {{t - 2, -0.7}, {t - 1, 1.6}};
    return recipe;
  });
  const auto matrices = release_matrices(aggregator, kSteps);
  const auto s = covariance(matrices, kSteps);
  const auto recipes = CorrelatedRecipes::of(aggregator, kSteps);
  for (const Members& steps : {Members{0}, Members{1, 4}, Members{0, 1, 2, 3, 4, 5, 6, 7, 8}}) {
    std::vector<Members> members(kSteps);
    for (const std::uint32_t step : steps) members[step] = {0};
    const CorrelatedCost cost = cost_of(*recipes, Participation(1, members));
    CHECK_FALSE(cost.is_attained);  // only a bound: it assumes the worst sign for every entry
    const double charged = cost.worst_after.back();
    double most = 0.0;
    for (unsigned signs = 0; signs < (1U << steps.size()); ++signs) {
      std::vector<double> u(kSteps, 0.0);
      for (std::size_t t = 0; t < kSteps; ++t) {
        for (std::size_t i = 0; i < steps.size(); ++i) {
          const double entry = matrices.data[t][steps[i]];
          u[t] += ((signs >> i) & 1U) != 0 ? entry : -entry;
        }
      }
      most = std::max(most, squared_length_under(s, u));
    }
    CHECK(most <= charged);
    if (steps.size() == 1) CHECK_THAT(charged, WithinRel(most, 1e-9));
  }
}

TEST_CASE("correlated releases: shares that miss 1 by a rounding are charged as an error",
          "[correlated][privacy]") {
  constexpr double kMiss = 0x1p-45;
  constexpr std::uint64_t kSteps = 64;
  const auto cost_with_share = [&](double share) {
    const ScriptedAggregator aggregator([share](std::uint64_t t) {
      ReleaseRecipe recipe{.keep = 1.0, .earlier = {}, .noise = {{t, 1.0}}};
      if (t > 0) recipe.earlier = {{t - 1, share}};
      return recipe;
    });
    return cost_of(*CorrelatedRecipes::of(aggregator, kSteps),
                   Participation(1, std::vector<Members>(kSteps, {0})));
  };
  const double exact = cost_with_share(1.0).worst_after.back();
  CHECK_THAT(exact, WithinRel(64.0, 1e-12));  // one new contribution in each release
  // The release of step t then has t - 1 further entries of kMiss, in addition to its own.
  double squares = 0.0;
  for (std::uint64_t t = 0; t < kSteps; ++t) {
    const double change = 1.0 + kMiss * double(t);
    squares += change * change;
  }
  CHECK(cost_with_share(1.0 - kMiss).worst_after.back() >= squares);
  CHECK_THAT(cost_with_share(1.0 - kMiss).worst_after.back(), WithinRel(64.0, 1e-9));
}

TEST_CASE("the variance of correlated noise is the diagonal of its covariance", "[correlated]") {
  constexpr std::uint64_t kSteps = 70;
  for (const Value::Object& params : all_options()) {
    const auto aggregator = tree(kSteps, params, 1.5);
    const auto s = covariance(release_matrices(*aggregator, kSteps), kSteps);
    const auto recipes = CorrelatedRecipes::of(*aggregator, kSteps);
    core::NoiseVariance variance(*recipes);
    for (std::size_t t = 0; t < kSteps; ++t) CHECK_THAT(variance.next(), WithinRel(s[t][t], 1e-12));
  }
}

TEST_CASE("Proposition 14: at alpha = 1/N its sum is more than Lemma 7 takes", "[errata]") {
  const auto sum = [](double alpha, double gamma, double examples) {
    const double ratio = std::pow(1.0 - alpha, examples) / (1.0 - gamma);
    return 1.0 / (1.0 - ratio);
  };
  const double lemma_7 = 1.0 / (1.0 - std::exp(-1.0));
  for (const double examples : {100.0, 10000.0}) {
    CHECK(sum((1.0 + std::log(2.0)) / examples, 0.5, examples) <= lemma_7);
    CHECK_THAT(sum(1.0 / examples, 0.5, examples), WithinRel(3.78, 0.02));
  }
}

// The weight of an epoch's noise is the sum over j < i of y^j x^(i-1-j).
TEST_CASE("the sums of squares that Lemma 7 needs are at most what its proof takes", "[errata]") {
  const double lemma_7 = 1.0 / (1.0 - std::exp(-1.0));
  for (const double passes : {1.0, 1.3, 1.69}) {
    for (const double gamma : {0.001, 0.1, 0.5}) {
      const double x = std::pow(1.0 - passes / 1000.0, 1000.0), y = 1.0 - gamma;
      double weight = 0.0, power = 1.0, most = 0.0, squares = 0.0;
      for (int i = 0; i < 30000; ++i, power *= x) {
        weight = y * weight + power;
        most = std::max(most, weight);
        squares += weight * weight;
      }
      CHECK(most <= lemma_7);
      CHECK(squares <= lemma_7 * lemma_7 / gamma);
    }
  }
}

// Erratum: the proof of Lemma 12 of Tran and Cutkosky 2022 counts at most log2(T) nodes in a
// release of T steps. Its bound fails in the first steps; then older noise has faded enough.
TEST_CASE("a release of 2^k - 1 steps has the noise of k nodes, more than log2 of them",
          "[correlated]") {
  constexpr std::uint64_t kSteps = 127;
  const auto aggregator = tree(kSteps, options(1.0 - 1e-9, 0, false, false), 1.0);
  const auto recipes = CorrelatedRecipes::of(*aggregator, kSteps);
  core::NoiseVariance variance(*recipes);
  for (std::uint64_t t = 1; t <= kSteps; ++t) {
    const double nodes = variance.next(), log = std::log2(static_cast<double>(t));
    CHECK(nodes <= log + 1.0);
    if (std::has_single_bit(t + 1)) CHECK(nodes > log);
  }
  constexpr double kExamples = 400.0;
  const auto fading = CorrelatedRecipes::of(
      *tree(1600, options(1.0 - 1.0 / kExamples, 0, false, false), 1.0), 1600);
  core::NoiseVariance faded(*fading);
  for (std::uint64_t t = 1; t <= 1600; ++t) {
    const double noise = faded.next(), log = std::log2(static_cast<double>(t));
    if (t == 15) CHECK(noise > log);
    if (t > 15) CHECK(noise <= log);
  }
}

TEST_CASE("noise that is changed by one factor is not accounted again", "[correlated]") {
  constexpr std::uint64_t kSteps = 50;
  const auto recipes = [&](double multiplier, double momentum) {
    return *CorrelatedRecipes::of(*tree(kSteps, options(momentum, 0, false, false), multiplier),
                                  kSteps);
  };
  const auto factor = recipes(3.0, 0.9).noise_relative_to(recipes(1.5, 0.9));
  REQUIRE(factor);
  CHECK_THAT(*factor, WithinRel(2.0, 1e-14));
  CHECK_FALSE(recipes(3.0, 0.9).noise_relative_to(recipes(1.5, 0.8)));
  // If factors differ in their last digits, the smallest factor is a lower bound on the scale of
  // all noise.
  const auto nearly = [](double last) {
    return CorrelatedRecipes::of(
        [last](std::uint64_t step) {
          return ReleaseRecipe{
              .keep = 1.0, .earlier = {}, .noise = {{step, step == 3 ? last : 2.0}}};
        },
        5);
  };
  CHECK(nearly(2.0 + 1e-12).noise_relative_to(nearly(2.0)) == 1.0);
  CHECK_FALSE(nearly(2.0 + 1e-11).noise_relative_to(nearly(2.0)));
  const Participation order = orders(9, 2, kSteps)[1];
  const CorrelatedCost scaled = with_noise_times(cost_of(recipes(1.5, 0.9), order), *factor);
  const CorrelatedCost again = cost_of(recipes(3.0, 0.9), order);
  for (std::size_t t = 0; t < kSteps; ++t)
    CHECK_THAT(scaled.worst_after[t], WithinRel(again.worst_after[t], 1e-13));
}

TEST_CASE("recipes that prove nothing, or make no sense, are refused", "[correlated][privacy]") {
  const auto refusal = [](std::function<void(std::uint64_t, ReleaseRecipe&)> spoil) {
    const ScriptedAggregator aggregator([spoil](std::uint64_t step) {
      ReleaseRecipe recipe{.keep = 1.0, .earlier = {}, .noise = {{step, 1.0}}};
      if (step > 0) recipe.earlier = {{step - 1, 1.0}};
      spoil(step, recipe);
      return recipe;
    });
    try {
      CorrelatedRecipes::of(aggregator, 6);
    } catch (const PrivacyError& error) {
      return std::string("privacy: ") + error.what();
    } catch (const PluginError& error) {
      return std::string("plugin: ") + error.what();
    }
    return std::string("none");
  };
  const auto at_4 = [](std::function<void(ReleaseRecipe&)> spoil) {
    return [spoil](std::uint64_t step, ReleaseRecipe& recipe) {
      if (step == 4) spoil(recipe);
    };
  };
  CHECK(refusal([](std::uint64_t, ReleaseRecipe&) {}) == "none");
  // A repeated node: the difference of two releases would have no noise.
  CHECK_THAT(refusal(at_4([](ReleaseRecipe& r) {
               r.noise = {{2, 1.0}};
             })),
             ContainsSubstring("privacy: noise node 2 is used twice"));
  CHECK_THAT(refusal(at_4([](ReleaseRecipe& r) {
               r.noise = {{4, 1.0}, {4, 1.0}};
             })),
             ContainsSubstring("privacy: noise node 4 is used twice"));
  CHECK_THAT(refusal(at_4([](ReleaseRecipe& r) { r.noise.clear(); })),
             ContainsSubstring("privacy: step 4 has a noise multiplier of 0"));
  CHECK_THAT(refusal(at_4([](ReleaseRecipe& r) { r.noise[0].multiplier = std::nan(""); })),
             ContainsSubstring("privacy: step 4 has a noise multiplier of nan"));
  CHECK_THAT(refusal(at_4([](ReleaseRecipe& r) {
               r.earlier = {{4, 1.0}};
             })),
             ContainsSubstring("plugin: the aggregator's recipe of step 4 continues step 4"));
  CHECK_THAT(refusal(at_4([](ReleaseRecipe& r) {
               r.earlier = {{3, 1.0}, {3, 1.0}};
             })),
             ContainsSubstring("continues step 3 twice"));
  CHECK_THAT(refusal(at_4([](ReleaseRecipe& r) { r.earlier[0].share = HUGE_VAL; })),
             ContainsSubstring("a share of inf"));
  CHECK_THAT(refusal(at_4([](ReleaseRecipe& r) { r.keep = std::nan(""); })),
             ContainsSubstring("a keep of nan"));
  CHECK_THAT(refusal(at_4([](ReleaseRecipe& r) { r.scale = HUGE_VAL; })),
             ContainsSubstring("a scale of inf"));
}

TEST_CASE("independent noise is not correlated", "[correlated]") {
  CHECK_FALSE(CorrelatedRecipes::of(independent_noise(1.0), 5));
}

// Tran and Cutkosky (2022), Algorithm 1, print 4 s sqrt(V) alpha G as the noise of every node,
// where V is the number of nodes that an example can be in, for rho = 1 / (2 s^2) under
// replace_one. Ours is m alpha G with rho = 2 (squared sensitivity for noise 1) / m^2. Expected
// ratios are from an independent calculation with other permutations, hence the tolerance.
TEST_CASE("exact accounting needs a fraction of the printed noise", "[correlated]") {
  struct Row {
    std::uint64_t rows, epochs;
    double a, ratio;
  };
  for (const Row& row :
       {Row{1000, 1, 0.01, 2.7}, Row{1000, 10, 0.01, 3.2}, Row{1000, 10, 0.001, 2.65},
        Row{1000, 50, 0.01, 3.5}, Row{4000, 5, 0.0005, 2.65}}) {
    const std::uint64_t steps = row.rows * row.epochs;
    const auto shuffle =
        house().create<Sampler>("shuffle", Value::Object{{"batch_size", Value(1), {}}});
    shuffle->start({.dataset_size = row.rows, .steps = steps, .adjacency = Adjacency::replace_one});
    const auto order =
        Participation::drawn(dynamic_cast<PublicOrder&>(*shuffle), steps, TestRandom(7));
    const auto aggregator = tree(steps, options(1.0 - row.a, 0, false, false), 1.0);
    const double squared =
        cost_of(*CorrelatedRecipes::of(*aggregator, steps), order).worst_after.back();
    const auto levels = [](double n) { return std::floor(std::log2(n)); };
    const double deepest = levels(double(steps));
    double nodes = (std::min(deepest, levels(double(row.rows))) + 1.0) * double(row.epochs);
    for (double level = levels(double(row.rows)) + 1.0; level <= deepest; ++level)
      nodes += std::floor(double(steps) / std::exp2(level));
    const double ratio = 2.0 * std::sqrt(nodes / squared);
    INFO("N " << row.rows << ", epochs " << row.epochs << ", a " << row.a << ": " << ratio);
    CHECK(ratio > row.ratio - 0.03);
    CHECK(ratio < row.ratio + 0.15);
  }
}
