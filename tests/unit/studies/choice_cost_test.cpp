// The bound on choosing the best of a random number of runs, against the true privacy of a case in
// which everything is known: a run releases y ~ N(0, 1) or, on the neighbour, N(mu, 1), and y is
// its own score. The best of K then has the density f'(F(y)) q(y), and its delta is an integral.
#include "privgrad/studies/choice_cost.hpp"

#include <cmath>
#include <numbers>

#include "support.hpp"

using namespace privgrad::core;

namespace {

double density(double y) { return std::exp(-y * y / 2.0) / std::sqrt(2.0 * std::numbers::pi); }
double distribution(double y) { return 0.5 * std::erfc(-y / std::numbers::sqrt2); }

/// Balle and Wang 2018, theorem 8: the exact delta of one such run.
double delta_of_one(double mu, double epsilon) {
  return distribution(mu / 2.0 - epsilon / mu) -
         std::exp(epsilon) * distribution(-mu / 2.0 - epsilon / mu);
}

double epsilon_of_one(double mu, double delta) {
  double low = 0.0, high = 100.0;
  if (delta_of_one(mu, 0.0) <= delta) return 0.0;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2.0;
    (delta_of_one(mu, middle) > delta ? low : high) = middle;
  }
  return high;
}

double slope(RunCount count, double runs, double x) {
  if (count == RunCount::poisson) return runs * std::exp(runs * (x - 1.0));
  const double g = 1.0 / runs;  // of geometric: g / (1 - (1-g) x)^2
  return g / std::pow(1.0 - (1.0 - g) * x, 2);
}

/// The exact delta of the best of K runs, the worse of both directions.
double delta_of_best(RunCount count, double runs, double mu, double epsilon) {
  constexpr double kStep = 1e-3;
  double forth = 0.0, back = 0.0;
  for (double y = -10.0; y < 10.0 + mu; y += kStep) {
    const double p = slope(count, runs, distribution(y)) * density(y);
    const double q = slope(count, runs, distribution(y - mu)) * density(y - mu);
    forth += std::max(0.0, p - std::exp(epsilon) * q) * kStep;
    back += std::max(0.0, q - std::exp(epsilon) * p) * kStep;
  }
  return std::max(forth, back);
}

double bound(RunCount count, double runs, double mu, double delta) {
  return random_number_epsilon([&](double d) { return epsilon_of_one(mu, d); },
                               [&](double e) { return delta_of_one(mu, e); }, count, runs, delta);
}

}  // namespace

TEST_CASE("the bound on choosing holds where the truth is known", "[choice][privacy]") {
  for (const RunCount count : {RunCount::geometric, RunCount::poisson}) {
    for (const double runs : {1.0, 2.0, 8.0, 50.0}) {
      for (const double mu : {0.1, 0.6, 2.0}) {
        for (const double delta : {1e-2, 1e-5}) {
          CAPTURE(static_cast<int>(count), runs, mu, delta);
          const double epsilon = bound(count, runs, mu, delta);
          CHECK(delta_of_best(count, runs, mu, epsilon) <= delta * (1.0 + 1e-6));
        }
      }
    }
  }
}

TEST_CASE("choosing is not free, and costs less than composing", "[choice][privacy]") {
  const double mu = 0.6, delta = 1e-5;
  const double one = epsilon_of_one(mu, delta);
  // At the epsilon of one run, the best of eight breaks delta: a table must not show that alone.
  CHECK(delta_of_best(RunCount::geometric, 8, mu, one) > 2.0 * delta);
  // Eight Gaussian releases are one with sqrt(8) times the mean.
  const double composed = epsilon_of_one(mu * std::sqrt(8.0), delta);
  CHECK(bound(RunCount::geometric, 8, mu, delta) < composed);
  CHECK(bound(RunCount::poisson, 8, mu, delta) < composed);
}

TEST_CASE("a single run costs what it costs", "[choice][privacy]") {
  const double one = epsilon_of_one(0.6, 1e-5);
  CHECK_THAT(bound(RunCount::geometric, 1, 0.6, 1e-5), WithinRel(one, 1e-9));
}

// Liu and Talwar 2019, Theorem 3.1: releasing the best of a geometric number of epsilon-DP runs is
// 3 epsilon-DP. The profile here is the largest that pure DP allows, and the number of runs is so
// large that nothing better than epsilon bounds it.
TEST_CASE("the best of a geometric number of purely private runs costs three times one",
          "[choice][privacy]") {
  const double one = 0.7;
  const double bound = random_number_epsilon([&](double) { return one; },
                                             [&](double e) { return e < one ? 1.0 : 0.0; },
                                             RunCount::geometric, 1e9, 1e-5);
  CHECK(bound >= 3.0 * one);
  CHECK_THAT(bound, WithinRel(3.0 * one, 1e-9));
}

// Papernot and Steinke 2022, Theorem 6, at its simplest: epsilon(delta / m) + m delta(0).
TEST_CASE("the best of a Poisson number of runs costs one and the expected number's share",
          "[choice][privacy]") {
  const double bound = random_number_epsilon([](double d) { return d == 0.25e-5 ? 0.5 : 0.4; },
                                             [](double e) { return e == 0.0 ? 0.03 : 0.0; },
                                             RunCount::poisson, 4.0, 1e-5);
  CHECK(bound >= 0.4 + 0.12);
  CHECK(bound <= 0.5 + 0.12 + 1e-9);
  const double delta_is_shared =
      random_number_epsilon([](double d) { return d < 0.26e-5 ? 0.5 : 0.4; },
                            [](double) { return 0.0; }, RunCount::poisson, 4.0, 1e-5);
  CHECK_THAT(delta_is_shared, WithinRel(0.5, 1e-9));
}
