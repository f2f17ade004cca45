// Clients that take part whenever they may: their cost, and what enforces the rule.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/trust/separation.hpp"
#include "release_matrices.hpp"
#include "support.hpp"

using namespace privgrad;
using core::CorrelatedRecipes;
using core::Separation;
using core::SeparationWatch;

namespace {

/// Returns N = A with its columns or rows multiplied by the sigmas; a_0 = 1.
Matrix noising(const std::vector<double>& a, const std::vector<double>& sigma, bool by_columns) {
  const std::size_t steps = sigma.size();
  Matrix n(steps, std::vector<double>(steps, 0.0));
  for (std::size_t t = 0; t < steps; ++t) {
    for (std::size_t j = 0; j < a.size() && j <= t; ++j)
      n[t][t - j] = a[j] * (by_columns ? sigma[t - j] : sigma[t]);
  }
  return n;
}

CorrelatedRecipes recipes_of(const Matrix& n, std::uint64_t window) {
  return CorrelatedRecipes::of(
      [&](std::uint64_t step) {
        ReleaseRecipe recipe;
        for (std::uint64_t j = 0; j <= std::min(window, step); ++j)
          recipe.noise.push_back({step - j, n[step][step - j]});
        return recipe;
      },
      n.size(), window);
}

/// Returns the column of C = N^-1 for a step's data.
std::vector<double> column_of_inverse(const Matrix& n, std::size_t step) {
  std::vector<double> column(n.size(), 0.0);
  for (std::size_t row = step; row < n.size(); ++row) {
    double left = row == step ? 1.0 : 0.0;
    for (std::size_t k = step; k < row; ++k) left -= n[row][k] * column[k];
    column[row] = left / n[row][row];
  }
  return column;
}

/// Returns the largest change of the first `rows` rows of C X by any client, found by trying all
/// rounds that the rule allows, and all directions in each round.
double worst_of_all(const Matrix& n, const Separation& rule, std::size_t rows) {
  Matrix columns;
  for (std::size_t t = 0; t < n.size(); ++t) columns.push_back(column_of_inverse(n, t));
  double worst = 0.0;
  std::vector<double> change(rows, 0.0);
  const std::function<void(std::size_t, std::uint64_t)> extend = [&](std::size_t from,
                                                                     std::uint64_t left) {
    double sum = 0.0;
    for (const double value : change) sum += value * value;
    worst = std::max(worst, sum);
    if (left == 0) return;
    for (std::size_t t = from; t < n.size(); ++t) {
      for (const double sign : {1.0, -1.0}) {
        for (std::size_t row = 0; row < rows; ++row) change[row] += sign * columns[t][row];
        extend(t + rule.min_separation + 1, left - 1);
        for (std::size_t row = 0; row < rows; ++row) change[row] -= sign * columns[t][row];
      }
    }
  };
  extend(0, rule.max_participations);
  return worst;
}

bool is_decreasing(const std::vector<double>& column) {
  return column.back() >= 0.0 &&
         std::is_sorted(column.begin(), column.end(), std::greater_equal<>());
}

constexpr std::size_t kManySteps = 1000;

const std::vector<Separation> kRules = {{1, 0}, {2, 0}, {3, 0}, {2, 1}, {9, 1}, {3, 2}, {9, 3}};

/// Returns coefficients for up to three earlier steps.
std::vector<double> random_coefficients(std::mt19937& random, double least, double most) {
  std::uniform_real_distribution<double> uniform(least, most);
  std::vector<double> a{1.0};
  const std::size_t window = 1 + random() % 3;
  while (a.size() < window + 1) a.push_back(uniform(random));
  return a;
}

}  // namespace

TEST_CASE("clients who come whenever they may are charged for the worst rounds that they can have",
          "[separation]") {
  std::mt19937 random(11);
  int decreasing = 0, rising = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const std::vector<double> a = random_coefficients(random, -0.9, 0.0);
    const std::size_t steps = 3 + random() % 6;
    const Matrix n = noising(a, std::vector<double>(steps, 1.7), true);
    const CorrelatedRecipes recipes = recipes_of(n, a.size() - 1);
    const bool is_exact = is_decreasing(column_of_inverse(n, 0));
    ++(is_exact ? decreasing : rising);
    for (const Separation& rule : kRules) {
      const core::CorrelatedCost cost = separated_cost(recipes, rule);
      REQUIRE(cost.worst_after.size() == steps);
      CHECK_FALSE(cost.is_attained);  // usually limited by the rounds of a run
      CHECK(cost.of_groups == std::vector<double>{cost.worst_after.back()});
      for (std::size_t rows = 1; rows <= steps; ++rows) {
        INFO("trial " << trial << ", " << rule.max_participations << " times, "
                      << rule.min_separation << " between, " << rows << " rows");
        const double worst = worst_of_all(n, rule, rows);
        CHECK(cost.worst_after[rows - 1] >= worst * (1.0 - 1e-14));
        if (is_exact) CHECK_THAT(cost.worst_after[rows - 1], WithinRel(worst, 1e-12));
      }
    }
  }
  CHECK(decreasing > 10);
  CHECK(rising > 10);
}

TEST_CASE("the column that does not increase is the least one", "[separation]") {
  // c = 1, 0.5, 0.85, ... rises, so u = 1, 0.85, 0.85, and a client in steps 0 and 1 changes the
  // rows by 1, 1.85, 1.7.
  const Matrix n = noising({1.0, -0.5, -0.6}, {1.0, 1.0, 1.0}, true);
  const double expected = 1.0 + 1.85 * 1.85 + 1.7 * 1.7;
  CHECK_THAT(separated_cost(recipes_of(n, 2), {2, 0}).worst_after.back(),
             WithinRel(expected, 1e-12));
}

TEST_CASE("noise that changes over the rounds, and of both signs, is charged no less than it costs",
          "[separation]") {
  std::mt19937 random(12);
  std::uniform_real_distribution<double> uniform(0.5, 2.0);
  int as_least = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const bool both_signs = trial % 2 == 0, by_columns = trial % 4 < 2;
    const std::vector<double> a = random_coefficients(random, -0.7, both_signs ? 0.7 : 0.0);
    std::vector<double> sigma(3 + random() % 6);
    for (double& value : sigma) value = uniform(random);
    const Matrix n = noising(a, sigma, by_columns);
    const double least = *std::min_element(sigma.begin(), sigma.end());
    const Matrix alike = noising(a, std::vector<double>(sigma.size(), least), by_columns);
    for (const Separation& rule : kRules) {
      INFO("trial " << trial << ", " << rule.max_participations << " times, " << rule.min_separation
                    << " between");
      const double charged = separated_cost(recipes_of(n, a.size() - 1), rule).worst_after.back();
      CHECK(charged >= worst_of_all(n, rule, sigma.size()) * (1.0 - 1e-14));
      // Charges as if every step had the smallest noise, or less.
      const double of_least =
          separated_cost(recipes_of(alike, a.size() - 1), rule).worst_after.back();
      CHECK(charged <= of_least * (1.0 + 1e-11));
      as_least += charged >= of_least * (1.0 - 1e-11) ? 1 : 0;
    }
  }
  CHECK(as_least > 300);  // out of 420
}

TEST_CASE("noise of another shape in each round is charged no less than it costs", "[separation]") {
  std::mt19937 random(13);
  std::uniform_real_distribution<double> uniform(-0.5, 0.3);
  for (int trial = 0; trial < 40; ++trial) {
    Matrix n = noising({1.0, -0.2, -0.1}, std::vector<double>(6, 1.3), true);
    for (std::size_t t = 1; t < n.size(); ++t) n[t][t - 1] = uniform(random);
    for (const Separation& rule : kRules) {
      CHECK(separated_cost(recipes_of(n, 2), rule).worst_after.back() >=
            worst_of_all(n, rule, n.size()) * (1.0 - 1e-14));
    }
  }
}

TEST_CASE("many rounds: what is charged is right to the digits, and what has no bound is refused",
          "[separation]") {
  // C = (I - 0.5 shift)^-1: c_d = 2^-d. A client in rounds 0, 10, 20, ... has at most the square of
  // sum_m 2^-(10 m), a geometric series.
  const auto recipes =
      recipes_of(noising({1.0, -0.5}, std::vector<double>(kManySteps, 2.0), true), 1);
  double expected = 0.0;
  for (std::size_t row = 0; row < kManySteps; ++row) {
    double change = 0.0;
    for (std::size_t t = 0; t <= row; t += 10) change += std::exp2(-static_cast<double>(row - t));
    expected += change * change / 4.0;
  }
  CHECK_THAT(separated_cost(recipes, {kManySteps, 9}).worst_after.back(),
             WithinRel(expected, 1e-11));
  const auto refusal = [](const std::vector<double>& a, std::size_t steps = kManySteps) {
    const auto grown = recipes_of(noising(a, std::vector<double>(steps, 1.0), true), a.size() - 1);
    try {
      separated_cost(grown, {kManySteps, 9});
    } catch (const ConfigError& problem) {
      return std::string(problem.what());
    }
    return std::string();
  };
  CHECK_THAT(refusal({1.0, -3.0}), ContainsSubstring("no finite cost is proved"));
  CHECK_THAT(refusal({1.0, -3.0}, 420),
             ContainsSubstring("no finite cost is proved"));  // a sum of squares overflows
  CHECK_THAT(refusal({1.0, 3.0, -4.0}), ContainsSubstring("no finite cost is proved"));
  const auto without = CorrelatedRecipes::of(
      [](std::uint64_t step) {
        ReleaseRecipe recipe;
        recipe.noise.push_back({step, 1.0});
        return recipe;
      },
      3);
  CHECK_THROWS_AS(separated_cost(without, {1, 0}), ConfigError);
}

TEST_CASE("a client that comes early, or too often, is named, and a run that lets it in ends",
          "[separation]") {
  const auto ended = [](SeparationWatch& watch, std::uint64_t round,
                        const std::vector<std::uint32_t>& clients) {
    try {
      watch.take_part(round, clients);
    } catch (const PrivacyError& problem) {
      return std::string(problem.what());
    }
    return std::string();
  };
  SeparationWatch watch({.max_participations = 2, .min_separation = 3}, 3);
  CHECK(watch.why_not(1, 0).empty());
  CHECK(ended(watch, 1, {1, 2}).empty());
  for (const std::uint64_t round : {2, 3, 4}) {
    CHECK(watch.why_not(0, round).empty());
    CHECK_THAT(watch.why_not(1, round),
               ContainsSubstring("early to round " + std::to_string(round + 1) +
                                 ", was in round 2, and may come again from round 6 on "));
    SeparationWatch copy = watch;
    CHECK_THAT(ended(copy, round, {0, 1}), ContainsSubstring("client 1: it comes early"));
    CHECK(ended(copy, round, {0}).empty());  // nothing was recorded
  }
  CHECK(watch.why_not(1, 5).empty());
  CHECK_THAT(ended(watch, 1, {0}), ContainsSubstring("round 2 comes again"));
  CHECK_THAT(ended(watch, 5, {1, 1}), ContainsSubstring("client 1: it comes twice"));
  CHECK_THAT(ended(watch, 5, {3}), ContainsSubstring("does not exist"));
  CHECK(ended(watch, 5, {1}).empty());
  CHECK_THAT(watch.why_not(1, 100), ContainsSubstring("in all 2 rounds that it may"));
  CHECK_THAT(ended(watch, 100, {1}), ContainsSubstring("max_participations"));

  core::StateWriter out;
  watch.save(out);
  SeparationWatch again({.max_participations = 2, .min_separation = 3}, 3);
  core::StateReader in(out.text(), "a test");
  again.restore(in);
  CHECK_THAT(again.why_not(1, 100), ContainsSubstring("in all 2 rounds that it may"));
  CHECK_THAT(ended(again, 5, {2}), ContainsSubstring("comes again"));
  CHECK(ended(again, 6, {2}).empty());
  SeparationWatch other({.max_participations = 2, .min_separation = 2}, 3);
  core::StateReader twice(out.text(), "a test");
  CHECK_THROWS_AS(other.restore(twice), IoError);
}

TEST_CASE("the rounds that fit", "[separation]") {
  for (std::uint64_t rounds = 1; rounds < 12; ++rounds) {
    for (const std::uint64_t between : {0, 1, 4, 11, 100}) {
      std::uint64_t fit = 0;
      for (std::uint64_t round = 0; round < rounds; round += between + 1) ++fit;
      CHECK(Separation{100, between}.most_of(rounds) == fit);
      CHECK(Separation{2, between}.most_of(rounds) == std::min<std::uint64_t>(fit, 2));
    }
  }
}
