#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/aggregator.hpp"
#include "release_matrices.hpp"

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
    CHECK(recipe.earlier.empty());
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

namespace {

auto tree(std::uint64_t steps, const Value::Object& params) {
  auto made = house().create<Aggregator>("tree", params);
  const std::vector<double> sigma(steps, 1.0);
  made->start({.steps = steps, .noise_multipliers = sigma});
  return made;
}

/// Tran and Cutkosky 2022, Algorithm 3: the greedy cover of [from, to] by aligned blocks of 2^k
/// steps, counted from 1.
/// \returns their last steps.
std::vector<std::uint64_t> compose(std::uint64_t from, std::uint64_t to) {
  if (from > to) return {};
  std::uint64_t length = 1;
  while ((from - 1) % (2 * length) == 0 && from + 2 * length - 1 <= to) length *= 2;
  std::vector<std::uint64_t> ends{from + length - 1};
  for (const std::uint64_t end : compose(from + length, to)) ends.push_back(end);
  return ends;
}

}  // namespace

TEST_CASE("tree: a release holds all steps so far, and a node for each block of its cover",
          "[aggregator]") {
  constexpr std::uint64_t kSteps = 100;  // not a power of two
  for (const double momentum : {1.0, 0.75}) {
    Value::Object params;
    if (momentum < 1.0) params.push_back({"momentum", Value(momentum), {}});
    const auto aggregator = tree(kSteps, params);
    const auto matrices = release_matrices(*aggregator, kSteps);
    for (std::uint64_t t = 0; t < kSteps; ++t) {
      CHECK(aggregator->recipe(t).scale == (momentum < 1.0 ? 1.0 - momentum : 1.0));
      for (std::uint64_t u = 0; u < kSteps; ++u) {
        const double expected = u <= t ? std::pow(momentum, double(t - u)) : 0.0;
        CHECK_THAT(matrices.data[t][u], WithinRel(expected, 1e-13));
      }
      std::map<std::uint64_t, double> expected, got;
      for (const std::uint64_t end : compose(1, t + 1))
        expected[end - 1] = std::pow(momentum, double(t + 1 - end));
      for (std::size_t j = 0; j < matrices.node.size(); ++j) {
        if (matrices.noise[t][j] != 0.0) got[matrices.node[j]] = matrices.noise[t][j];
      }
      REQUIRE(got.size() == expected.size());
      for (const auto& [node, weight] : expected) CHECK_THAT(got[node], WithinRel(weight, 1e-13));
    }
  }
}

TEST_CASE("tree: after a restart the sums go on, with the noise of the last release below",
          "[aggregator]") {
  const auto aggregator = tree(12, Value::Object{{"restart_every", Value(5), {}}});
  const auto matrices = release_matrices(*aggregator, 12);
  const Matrix noise = covariance(matrices, 12);
  // Variances: 1 per block of the cover of the current tree, and 2 for each earlier tree of 5
  // steps.
  const std::vector<double> expected{1, 1, 2, 1, 2, 3, 3, 4, 3, 4, 5, 5};
  for (std::size_t t = 0; t < 12; ++t) {
    CHECK(noise[t][t] == expected[t]);
    CHECK(matrices.data[t][0] == 1.0);
  }
  SECTION("completion: one node for a whole tree") {
    const auto completed =
        tree(12, Value::Object{{"restart_every", Value(5), {}}, {"completion", Value(true), {}}});
    const Matrix less = covariance(release_matrices(*completed, 12), 12);
    const std::vector<double> variances{1, 1, 2, 1, 1, 2, 2, 3, 2, 2, 3, 3};
    for (std::size_t t = 0; t < 12; ++t) CHECK(less[t][t] == variances[t]);
  }
}

// Kairouz et al. 2021, Section B.2: with the nodes below it, a complete block of 2^k steps has 1 /
// (2 - 2^-k) of a node's variance.
TEST_CASE("tree: variance reduction has the variance of the estimator from below", "[aggregator]") {
  constexpr std::uint64_t kSteps = 75;
  const auto reduced = tree(kSteps, Value::Object{{"variance_reduction", Value(true), {}}});
  const auto matrices = release_matrices(*reduced, kSteps);
  const Matrix noise = covariance(matrices, kSteps);
  for (std::uint64_t t = 0; t < kSteps; ++t) {
    double expected = 0.0;
    for (std::uint64_t left = t + 1; left != 0; left &= left - 1) {
      const std::uint64_t length = left & -left;
      expected += 1.0 / (2.0 - 1.0 / static_cast<double>(length));
    }
    CHECK_THAT(noise[t][t], WithinRel(expected, 1e-12));
  }
}

namespace {

/// Steps [begin, end) of a tree.
struct Steps {
  std::uint64_t begin, end;
};

/// Returns the least variance of an unbiased estimate of the momentum of the first `steps` steps
/// from nodes with variance 1, each of which contains the momentum of its own steps (Gauss and
/// Markov): u^T (A A^T)^-1 u, where A has the nodes' columns and u is the estimated quantity.
double least_variance(const std::vector<Steps>& nodes, std::uint64_t steps, double momentum) {
  const auto coefficients = [&](const Steps& of) {
    std::vector<double> values(steps, 0.0);
    for (std::uint64_t u = of.begin; u < of.end; ++u)
      values[u] = std::pow(momentum, double(of.end - 1 - u));
    return values;
  };
  Matrix information(steps, std::vector<double>(steps, 0.0));
  for (const Steps& node : nodes) {
    const std::vector<double> a = coefficients(node);
    for (std::uint64_t i = 0; i < steps; ++i) {
      for (std::uint64_t j = 0; j < steps; ++j) information[i][j] += a[i] * a[j];
    }
  }
  return squared_length_under(information, coefficients({0, steps}));
}

/// Returns all aligned blocks of 2^k steps in [0, steps).
std::vector<Steps> complete_blocks(std::uint64_t steps) {
  std::vector<Steps> nodes;
  for (std::uint64_t length = 1; length <= steps; length *= 2) {
    for (std::uint64_t begin = 0; begin + length <= steps; begin += length)
      nodes.push_back({begin, begin + length});
  }
  return nodes;
}

}  // namespace

TEST_CASE("tree: variance reduction of momentum is the best use of the nodes below",
          "[aggregator]") {
  constexpr std::uint64_t kSteps = 37;
  for (const double momentum : {0.6, 0.95}) {
    const auto reduced = tree(kSteps, Value::Object{{"momentum", Value(momentum), {}},
                                                    {"variance_reduction", Value(true), {}}});
    const Matrix noise = covariance(release_matrices(*reduced, kSteps), kSteps);
    for (std::uint64_t t = 0; t < kSteps; ++t) {
      CHECK_THAT(noise[t][t],
                 WithinRel(least_variance(complete_blocks(t + 1), t + 1, momentum), 1e-9));
    }
  }
}

TEST_CASE("tree: completion and variance reduction together use the root as best it can be",
          "[aggregator]") {
  for (const int tree_steps : {11, 13, 16}) {
    const auto reduced = tree(20, Value::Object{{"momentum", Value(0.9), {}},
                                                {"restart_every", Value(tree_steps), {}},
                                                {"completion", Value(true), {}},
                                                {"variance_reduction", Value(true), {}}});
    const auto last = static_cast<std::size_t>(tree_steps - 1);
    std::vector<Steps> nodes = complete_blocks(last + 1);
    if (tree_steps != 16) nodes.push_back({0, last + 1});  // 16 steps have it already
    CHECK_THAT(covariance(release_matrices(*reduced, 20), 20)[last][last],
               WithinRel(least_variance(nodes, last + 1, 0.9), 1e-9));
  }
}

TEST_CASE("tree: options that make no sense are refused", "[aggregator]") {
  CHECK_THROWS_WITH(
      house().create<Aggregator>("tree", Value::Object{{"completion", Value(true), {}}}),
      ContainsSubstring("give restart_every"));
  CHECK_THROWS_AS(house().create<Aggregator>("tree", Value::Object{{"momentum", Value(1.0), {}}}),
                  privgrad::ConfigError);
  const auto aggregator = house().create<Aggregator>("tree", Value::Object{});
  const std::vector<double> bad{1.0, 0.0};
  CHECK_THROWS_AS(aggregator->start({.steps = 2, .noise_multipliers = bad}), privgrad::ConfigError);
  CHECK_THROWS_AS(aggregator->start({.steps = 3, .noise_multipliers = bad}), privgrad::ConfigError);
}
