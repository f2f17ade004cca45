// The charge for noise that is almost the inverse of a banded strategy.
#include "privgrad/trust/banded_cost.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using core::CorrelatedRecipes;

namespace {

using Vector = std::vector<double>;

/// Returns the first coefficients of 1 / c.
Vector inverse(const Vector& c, std::size_t terms) {
  Vector a(terms, 0.0);
  a[0] = 1.0;
  for (std::size_t j = 1; j < terms; ++j)
    for (std::size_t i = 1; i < c.size() && i <= j; ++i) a[j] -= c[i] * a[j - i];
  return a;
}

/// Makes recipes with N_{t,t-j} = a_j sigma_t, or a_j sigma_{t-j} if `older`.
CorrelatedRecipes recipes_of(const Vector& a, const Vector& sigma, bool older = false) {
  return CorrelatedRecipes::of(
      [&](std::uint64_t step) {
        ReleaseRecipe recipe;
        for (std::size_t j = 0; j < a.size() && j <= step; ++j)
          recipe.noise.push_back({step - j, a[j] * sigma[older ? step - j : step]});
        return recipe;
      },
      sigma.size(), a.size() - 1);
}

/// Returns the smallest singular value of C N, with c_j / sigma_t in column t of C, by inverse
/// iteration: C N is lower triangular.
double least_singular_value(const CorrelatedRecipes& recipes, const Vector& c) {
  const std::size_t steps = recipes.steps();
  std::vector<Vector> noise(steps, Vector(steps, 0.0)), both = noise;
  for (std::size_t t = 0; t < steps; ++t)
    for (const NoiseTerm& term : recipes.noise(t)) noise[t][term.node] = term.multiplier;
  for (std::size_t t = 0; t < steps; ++t)
    for (std::size_t u = 0; u <= t; ++u)
      for (std::size_t i = 0; i < c.size() && i <= t; ++i)
        both[t][u] += c[i] / recipes.own_multiplier(t - i) * noise[t - i][u];
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  Vector v(steps);
  for (double& x : v) x = normal(random);
  double size = 0.0;
  for (int i = 0; i < 2000; ++i) {
    for (std::size_t t = 0; t < steps; ++t) {
      for (std::size_t u = 0; u < t; ++u) v[t] -= both[t][u] * v[u];
      v[t] /= both[t][t];
    }
    for (std::size_t t = steps; t-- > 0;) {
      for (std::size_t u = t + 1; u < steps; ++u) v[t] -= both[u][t] * v[u];
      v[t] /= both[t][t];
    }
    size = 0.0;
    for (const double x : v) size += x * x;
    size = std::sqrt(size);
    for (double& x : v) x /= size;
  }
  return 1.0 / std::sqrt(size);
}

double norm(const Vector& c) {
  double squares = 0.0;
  for (const double x : c) squares += x * x;
  return std::sqrt(squares);
}

Vector falling(std::size_t steps, double by) {
  Vector sigma(steps, 1.0);
  for (std::size_t t = 1; t < steps; ++t) sigma[t] = sigma[t - 1] * by;
  return sigma;
}

const Vector kStrategy{1.0, 0.55, 0.35};

}  // namespace

TEST_CASE("banded noise: the charge has the reference's share of the noise",
          "[correlated][banded][privacy]") {
  std::ifstream file(kSource / "tests/golden/banded.jsonl");
  REQUIRE(file);
  int compared = 0;
  for (std::string line; std::getline(file, line); ++compared) {
    INFO(line);
    const auto given = nlohmann::json::parse(line);
    const Vector c = given.at("c"), a = given.at("n");
    const Vector sigma(given.at("steps").get<std::size_t>(), 1.0);
    const Vector found = core::banded_multipliers(recipes_of(a, sigma), c);
    const double expected = 1.0 / (given.at("noise_factor").get<double>() * norm(c));
    CHECK_THAT(found.front(), WithinRel(expected, 1e-9));
    CHECK(found.back() == found.front());
  }
  CHECK(compared == 36);
}

TEST_CASE("banded noise: C N is nowhere less than the noise that is charged",
          "[correlated][banded][privacy]") {
  for (const std::size_t terms : {3u, 5u, 8u}) {
    for (const double by : {1.0, 0.95, 0.9, 1.05}) {
      for (const bool older : {false, true}) {
        INFO("terms " << terms << ", sigma times " << by << (older ? ", older" : ""));
        const Vector sigma = falling(40, by);
        const CorrelatedRecipes recipes = recipes_of(inverse(kStrategy, terms), sigma, older);
        Vector charged;
        try {
          charged = core::banded_multipliers(recipes, kStrategy);
        } catch (const PrivacyError&) {
          CHECK((older && by < 1.0));  // N may be too far from the inverse
          continue;
        }
        const double least = least_singular_value(recipes, kStrategy);
        for (std::size_t t = 0; t < sigma.size(); ++t)
          CHECK(charged[t] * norm(kStrategy) / sigma[t] <= least * (1.0 + 1e-9));
        // The bound is useful: at most a fifth is lost.
        CHECK(charged[0] * norm(kStrategy) / sigma[0] > 0.6 * least);
      }
    }
  }
}

TEST_CASE("banded noise: terms of the step's own sigma are charged alike at each sigma",
          "[correlated][banded][privacy]") {
  const Vector a = inverse(kStrategy, 5);
  const double share = core::banded_multipliers(recipes_of(a, Vector(40, 1.0)), kStrategy)[0];
  const Vector sigma = falling(40, 0.7);
  const Vector found = core::banded_multipliers(recipes_of(a, sigma), kStrategy);
  for (std::size_t t = 0; t < sigma.size(); ++t)
    CHECK_THAT(found[t], WithinRel(share * sigma[t], 1e-12));
  // With older steps' sigmas, the remaining noise is smaller, which the charge takes into account.
  const auto older = recipes_of(a, falling(40, 0.95), true);
  CHECK(core::banded_multipliers(older, kStrategy)[0] < share * (1.0 - 1e-3));
}

TEST_CASE("banded noise: a whole inverse is charged by the strategy alone",
          "[correlated][banded][privacy]") {
  // c = (1, -0.5), whose inverse is truncated at 16 terms: rho is 2^-16.
  const Vector c{1.0, -0.5};
  const auto found = core::banded_multipliers(recipes_of(inverse(c, 16), Vector(100, 2.0)), c);
  CHECK_THAT(found[50], WithinRel(2.0 * (1.0 - 0x1p-16) / std::sqrt(1.25), 1e-12));
  CHECK(found[50] <= 2.0 * (1.0 - 0x1p-16) / std::sqrt(1.25));
}

TEST_CASE("banded noise: nothing is proved far from the inverse, or without a strategy",
          "[correlated][banded][privacy]") {
  const auto plain = recipes_of({1.0, 0.0}, Vector(10, 1.0));
  CHECK_THROWS_AS(core::banded_multipliers(plain, Vector{1.0, 0.6, 0.5}), PrivacyError);
  CHECK_THROWS_AS(core::banded_multipliers(plain, Vector{}), PluginError);
  CHECK_THROWS_AS(core::banded_multipliers(plain, Vector{0.5, 0.1}), PluginError);
  CHECK_THROWS_AS(core::banded_multipliers(plain, Vector{1.0, std::nan("")}), PluginError);
}
