#include "privgrad/trust/correlated_mechanism.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "fake_accountant.hpp"
#include "fake_aggregator.hpp"
#include "fake_clipping.hpp"
#include "fake_program.hpp"
#include "house_plugins.hpp"
#include "payments.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/trust/clipped_sum.hpp"
#include "privgrad/trust/normals.hpp"
#include "release_matrices.hpp"
#include "trust_support.hpp"

using namespace privgrad;
using core::Charge;
using core::CorrelatedMechanism;
using core::CorrelatedRecipes;
using core::Ledger;
using core::RandomKey;
using core::Receipt;

namespace {

/// Returns a bounded sum with these values, of norm at most `l2_bound`.
Bounded sum_of(std::vector<float> values, double l2_bound) {
  const std::size_t size = values.size();
  const EchoProgram program(size);
  const Dataset data(ExampleShape{{size}, 0}, std::move(values), {0.0f});
  const std::vector<std::uint32_t> batch{0};
  return clipped_sum(program, data, batch, l2_bound, serial);
}

Value::Object momentum_tree() {
  return {{"momentum", Value(0.9), {}},
          {"restart_every", Value(21), {}},
          {"completion", Value(true), {}},
          {"variance_reduction", Value(true), {}}};
}

/// Returns the releases of a run's steps for zero sums, which are pure noise.
std::vector<std::vector<float>> noise_of(const CorrelatedRecipes& recipes, std::size_t size,
                                         RandomKey key, Executor& executor, double l2_bound) {
  CorrelatedMechanism mechanism(recipes, key, executor);
  Payments payments(recipes);
  std::vector<std::vector<float>> all;
  for (std::uint64_t step = 0; step < recipes.steps(); ++step) {
    const Released released = mechanism.release(sum_of(std::vector<float>(size, 0.0f), l2_bound),
                                                payments.take(step), 4.0);
    all.emplace_back(released.values().begin(), released.values().end());
  }
  return all;
}

}  // namespace

TEST_CASE("correlated noise is its nodes' normals, in the combination of the recipes",
          "[correlated][privacy]") {
  // A node that is skipped, reused, faded wrongly or kept after its block would be detected.
  constexpr std::uint64_t kSteps = 50;
  constexpr std::size_t kSize = 2000;
  constexpr double kBound = 3.0;
  for (const bool momentum : {false, true}) {
    const auto aggregator = tree(kSteps, momentum ? momentum_tree() : Value::Object{}, 1.7);
    const auto matrices = release_matrices(*aggregator, kSteps);
    const auto recipes = CorrelatedRecipes::of(*aggregator, kSteps);
    const RandomKey key = RandomKey::from_seed(4);
    const auto released = noise_of(*recipes, kSize, key, serial, kBound);
    std::vector<std::vector<float>> normals(matrices.node.size(), std::vector<float>(kSize));
    for (std::size_t j = 0; j < normals.size(); ++j)
      core::NormalStream(key, matrices.node[j]).fill(0, normals[j]);
    const double scale = momentum ? 0.1 : 1.0;
    for (std::size_t t = 0; t < kSteps; ++t) {
      double worst = 0.0;
      for (std::size_t i = 0; i < kSize; ++i) {
        double z = 0.0;
        for (std::size_t j = 0; j < normals.size(); ++j)
          z += matrices.noise[t][j] * double(normals[j][i]);
        worst = std::max(worst, std::fabs(released[t][i] - scale * kBound * z / 4.0));
      }
      // Some float32 rounding errors of values up to about 20.
      CHECK(worst < 1e-5);
    }
  }
}

TEST_CASE("a correlated release is the exact momentum and noise of the predicted covariance",
          "[correlated][privacy]") {
  constexpr std::uint64_t kSteps = 24;
  constexpr std::size_t kSize = 20'000;
  constexpr double kBound = 300.0, kDivisor = 10.0, kMultiplier = 0.05;
  const auto aggregator = tree(kSteps, momentum_tree(), kMultiplier);
  const auto recipes = CorrelatedRecipes::of(*aggregator, kSteps);
  CorrelatedMechanism mechanism(*recipes, RandomKey::from_seed(11), serial);
  Payments payments(*recipes);
  std::vector<double> momentum(kSize, 0.0);  // m <- 0.9 m + 0.1 x, as in the paper
  Matrix noise(kSteps, std::vector<double>(kSize));
  std::vector<double> stated;
  for (std::uint64_t t = 0; t < kSteps; ++t) {
    std::vector<float> x(kSize);
    for (std::size_t i = 0; i < kSize; ++i)
      x[i] = static_cast<float>(std::sin(0.1 * double(i) + double(t * t)));  // norm 100
    const Released released = mechanism.release(sum_of(x, kBound), payments.take(t), kDivisor);
    stated.push_back(released.noise_stddev());
    for (std::size_t i = 0; i < kSize; ++i) {
      momentum[i] = 0.9 * momentum[i] + 0.1 * static_cast<double>(x[i]) / kDivisor;
      noise[t][i] = static_cast<double>(released.values()[i]) - momentum[i];
    }
  }
  const double unit = 0.1 * kBound / kDivisor;  // scale * bound / divisor
  const Matrix predicted = covariance(release_matrices(*aggregator, kSteps), kSteps);
  for (std::size_t s = 0; s < kSteps; ++s) {
    CHECK_THAT(stated[s], WithinRel(unit * std::sqrt(predicted[s][s]), 1e-12));
    for (std::size_t t = 0; t <= s; ++t) {
      double product = 0.0;
      for (std::size_t i = 0; i < kSize; ++i) product += noise[s][i] * noise[t][i];
      product /= double(kSize) * unit * unit;
      const double variance = predicted[s][s] * predicted[t][t] + predicted[s][t] * predicted[s][t];
      // 300 normal variables at 6 standard errors each: one false alarm in 10^6 seeds.
      CHECK(std::fabs(product - predicted[s][t]) < 6.0 * std::sqrt(variance / double(kSize)));
    }
  }
}

TEST_CASE("correlated releases are the same on any number of threads", "[correlated]") {
  constexpr std::size_t kSize = 3 * 32 * 1024 + 5000;
  const auto recipes = CorrelatedRecipes::of(*tree(6, {}, 1.0), 6);
  const auto alone = noise_of(*recipes, kSize, RandomKey::from_seed(1), serial, 1.0);
  for (const int threads : {2, 4}) {
    const auto executor = core::make_executor(threads);
    CHECK(noise_of(*recipes, kSize, RandomKey::from_seed(1), *executor, 1.0) == alone);
  }
}

TEST_CASE("correlated releases go step by step, each for its own payment, on one bound",
          "[correlated][privacy]") {
  const auto recipes = CorrelatedRecipes::of(*tree(5, {}, 1.0), 5);
  const std::vector<float> zeros(3, 0.0f);
  const auto fresh = [&] { return CorrelatedMechanism(*recipes, RandomKey::from_seed(1), serial); };
  SECTION("a step is not released twice, nor another one skipped") {
    auto mechanism = fresh();
    Payments first(*recipes), second(*recipes);
    mechanism.release(sum_of(zeros, 1.0), first.take(0), 1.0);
    CHECK_THROWS_AS(mechanism.release(sum_of(zeros, 1.0), second.take(0), 1.0), PrivacyError);
    CHECK_THROWS_WITH(mechanism.release(sum_of(zeros, 1.0), first.take(2), 1.0),
                      ContainsSubstring("step 2 cannot be released, the next one is 1"));
    mechanism.release(sum_of(zeros, 1.0), first.take(1), 1.0);
  }
  SECTION("a payment for other noise does not count") {
    auto mechanism = fresh();
    Payments more(*recipes, 2.0);
    CHECK_THROWS_WITH(mechanism.release(sum_of(zeros, 1.0), more.take(0), 1.0),
                      ContainsSubstring("paid for other noise"));
  }
  SECTION("the noise of earlier steps is for their bound and length") {
    auto mechanism = fresh();
    Payments payments(*recipes);
    mechanism.release(sum_of(zeros, 1.0), payments.take(0), 1.0);
    CHECK_THROWS_WITH(mechanism.release(sum_of(zeros, 2.0), payments.take(1), 1.0),
                      ContainsSubstring("of bound 2, the first had 3 of bound 1"));
    CHECK_THROWS_AS(mechanism.release(sum_of({0.0f}, 1.0), payments.take(2), 1.0), PrivacyError);
  }
  SECTION("noise does not continue where there was none") {
    auto mechanism = fresh();
    Payments payments(*recipes);
    mechanism.release_without_noise(sum_of(zeros, 1.0), 1.0);
    mechanism.release_without_noise(sum_of(zeros, 1.0), 1.0);
    CHECK_THROWS_WITH(mechanism.release(sum_of(zeros, 1.0), payments.take(2), 1.0),
                      ContainsSubstring("step 2 continues the noise of step 1, which was released "
                                        "without"));
  }
  SECTION("the divisor is a number above 0") {
    auto mechanism = fresh();
    Payments payments(*recipes);
    CHECK_THROWS_AS(mechanism.release(sum_of(zeros, 1.0), payments.take(0), 0.0), ConfigError);
  }
}

// As for independent noise: "what is paid for decides which noise a step has" (mechanism_test.cpp).
TEST_CASE("what is paid for decides which new noise a correlated step has, in every process",
          "[correlated][privacy]") {
  constexpr std::size_t kSize = 4096;
  struct Key {
    bool of_step, is_told;
  };
  const auto release = [](double multiplier, double l2_bound, Key key) {
    const auto recipes = CorrelatedRecipes::of(*tree(1, {}, multiplier), 1);
    CorrelatedMechanism first(*recipes, RandomKey::from_seed(3), serial);
    if (key.of_step) first.use_key(RandomKey::from_seed(3));
    CorrelatedMechanism second(*recipes, RandomKey::from_seed(0), serial);
    if (key.is_told) second.use_secret_key(first.secret_key());
    return values((key.is_told ? second : first)
                      .release(sum_of(std::vector<float>(kSize, 0.0f), l2_bound),
                               Payments(*recipes).take(0), 1.0));
  };
  const auto correlation = [](const std::vector<float>& a, const std::vector<float>& b) {
    const auto product = [](const std::vector<float>& x, const std::vector<float>& y) {
      return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    };
    return product(a, b) / std::sqrt(product(a, a) * product(b, b));
  };
  for (const bool is_told : {false, true}) {
    INFO((is_told ? "told" : "its own"));
    const Key key{true, is_told}, seed{false, is_told};
    CHECK(release(1.0, 1.0, key) == release(1.0, 1.0, {true, !is_told}));
    CHECK(std::fabs(correlation(release(1.0, 1.0, key), release(2.0, 1.0, key))) < 6.0 / 64.0);
    CHECK(std::fabs(correlation(release(1.0, 1.0, key), release(1.0, 2.0, key))) < 6.0 / 64.0);
    CHECK(release(1.0, 1.0, seed) == release(1.0, 1.0, {false, !is_told}));
    CHECK(correlation(release(1.0, 1.0, seed), release(2.0, 2.0, seed)) > 0.999);
  }
}

TEST_CASE("correlated releases do not drift over many steps", "[correlated]") {
  // 2^17 steps with the same x under momentum 0.999: the sum is (1 - 0.999^t) x, with the noise of
  // at most 17 nodes.
  constexpr std::uint64_t kSteps = std::uint64_t{1} << 17;
  const auto aggregator = tree(kSteps, Value::Object{{"momentum", Value(0.999), {}}}, 1e-3);
  const auto recipes = CorrelatedRecipes::of(*aggregator, kSteps);
  CorrelatedMechanism mechanism(*recipes, RandomKey::from_seed(1), serial);
  double worst = 0.0;
  for (std::uint64_t t = 0; t < kSteps; ++t) {
    const Released released = mechanism.release_without_noise(sum_of({0.25f}, 1.0), 1.0);
    const double exact = -0.25 * std::expm1(double(t + 1) * std::log(0.999));
    worst = std::max(worst, std::fabs(double(released.values()[0]) - exact));
  }
  CHECK(worst < 3e-8);  // half a unit in the last place of a float near 0.25 is 1.5e-8
}

TEST_CASE("the sums in noisy releases do not drift either", "[correlated]") {
  // As above, with noise too small to be visible in single precision.
  constexpr std::uint64_t kSteps = 20'000;
  const auto aggregator = tree(kSteps, Value::Object{{"momentum", Value(0.999), {}}}, 1e-12);
  const auto recipes = CorrelatedRecipes::of(*aggregator, kSteps);
  CorrelatedMechanism mechanism(*recipes, RandomKey::from_seed(1), serial);
  Payments payments(*recipes);
  double worst = 0.0;
  for (std::uint64_t t = 0; t < kSteps; ++t) {
    const Released released = mechanism.release(sum_of({0.3f}, 1.0), payments.take(t), 1.0);
    const double exact = -double(0.3f) * std::expm1(double(t + 1) * std::log(0.999));
    worst = std::max(worst, std::fabs(double(released.values()[0]) - exact));
  }
  CHECK(worst < 3e-8);
}
