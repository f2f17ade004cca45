#include "privgrad/influence.hpp"

#include <cmath>
#include <numeric>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

using Doubles = std::vector<double>;

double sum(const Doubles& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double uniform_noise(const Doubles& influence) {
  return static_cast<double>(influence.size()) * sum(influence);  // R = 1
}

/// Returns the weights computed directly from their definition, O(T^2).
Doubles momentum_by_definition(int steps, double gamma, double beta) {
  Doubles weights;
  for (int i = 1; i <= steps; ++i) {
    double weight = 0.0;
    for (int t = i; t <= steps; ++t) {
      weight += std::pow(gamma, steps - t) * std::pow((1 - beta) / (1 - std::pow(beta, t)), 2.0) *
                std::pow(beta, 2 * (t - i));
    }
    weights.push_back(weight);
  }
  return weights;
}

}  // namespace

TEST_CASE("Lemma 4.3: the budget is met with equality, and nothing of that budget does better",
          "[influence]") {
  for (const Doubles& q : {exponential_influence(40, 0.9), momentum_influence(40, 0.95, 0.9),
                           two_exponential_influence(40, 0.9, 0.8, 0.3), Doubles{3.0, 0.5, 7.0}}) {
    for (const double budget : {0.3927, 1.0, 12.0}) {
      const Doubles noise = allocated_noise(q, budget);
      CHECK_THAT(budget_of_noise(noise), WithinRel(budget, 1e-13));
      const double least = least_weighted_noise(q, budget);
      CHECK_THAT(weighted_noise(q, noise), WithinRel(least, 1e-13));
      // Moving budget between neighbouring steps increases the sum, in either direction.
      for (std::size_t t = 0; t + 1 < q.size(); ++t) {
        for (const double moved : {-0.01, 0.01}) {
          Doubles other = noise;
          const double share = 1.0 / (noise[t] * noise[t]);
          const double next = 1.0 / (noise[t + 1] * noise[t + 1]);
          const double change = moved * std::min(share, next);
          other[t] = 1.0 / std::sqrt(share + change);
          other[t + 1] = 1.0 / std::sqrt(next - change);
          CHECK(weighted_noise(q, other) > least);
        }
      }
    }
  }
}

// Erratum: the remark under Lemma 4.3. The gap to uniform noise is T^2 Var[sqrt(q)].
TEST_CASE("Lemma 4.3: uniform noise is worse by T^2 times the variance of sqrt(q)", "[influence]") {
  const Doubles q = exponential_influence(30, 0.9);
  double mean = 0.0;
  for (const double value : q) mean += std::sqrt(value) / 30.0;
  double variance = 0.0;
  for (const double value : q) variance += std::pow(std::sqrt(value) - mean, 2.0) / 30.0;
  CHECK_THAT(uniform_noise(q) - least_weighted_noise(q, 1.0), WithinRel(900.0 * variance, 1e-12));
}

TEST_CASE("the closed form for an exponential influence is Lemma 4.3, to 1e-12", "[influence]") {
  for (const double gamma : {0.5, 0.9, 0.97, 0.999, 1.0, 1.02}) {
    for (const std::uint64_t steps : {1, 2, 100, 500}) {
      INFO("gamma " << gamma << ", T " << steps);
      const Doubles closed = exponentially_allocated_noise(steps, gamma, 0.3927);
      const Doubles lemma = allocated_noise(exponential_influence(steps, gamma), 0.3927);
      for (std::size_t t = 0; t < steps; ++t) CHECK_THAT(closed[t], WithinRel(lemma[t], 1e-12));
    }
  }
  CHECK_THAT(exponentially_allocated_noise(100, 1.0, 0.25)[7],
             WithinRel(20.0, 1e-15));  // sqrt(T/R)
}

TEST_CASE("momentum: the recursion gives the weights of the definition", "[influence]") {
  for (const double beta : {0.0, 0.5, 0.9}) {
    const Doubles expected = momentum_by_definition(25, 0.95, beta);
    const Doubles weights = momentum_influence(25, 0.95, beta);
    for (std::size_t i = 0; i < 25; ++i) CHECK_THAT(weights[i], WithinRel(expected[i], 1e-13));
  }
  const Doubles plain = exponential_influence(25, 0.95);
  const Doubles none = momentum_influence(25, 0.95, 0.0);
  for (std::size_t i = 0; i < 25; ++i) CHECK_THAT(none[i], WithinRel(plain[i], 1e-15));
}

// Erratum: Theorem 4.7 allocates by a bound on the weights. Its q_t is gamma^t if T is at most T^ =
// max{t : gamma^(t-1) >= (1-beta)/(1-beta^t)}, otherwise gamma^(T-t). The figures of all three
// schedules come from an independent computation.
TEST_CASE("momentum: the exact weights beat uniform noise, the paper's bound on them need not",
          "[influence]") {
  const struct {
    std::uint64_t steps;
    double gamma, beta, exact, uniform, printed;
    bool falling;  // T <= T^
  } cases[] = {{50, 0.95, 0.9, 60.519, 64.048, 74.823, false},
               {30, 0.99, 0.9, 79.621, 106.640, 102.574, true},
               {200, 0.98, 0.5, 2499.855, 3278.608, 2503.583, false}};
  for (const auto& c : cases) {
    const Doubles w = momentum_influence(c.steps, c.gamma, c.beta);
    CHECK(std::fabs(least_weighted_noise(w, 1.0) - c.exact) < 5.1e-4);
    CHECK(std::fabs(uniform_noise(w) - c.uniform) < 5.1e-4);
    Doubles printed = exponential_influence(c.steps, c.gamma);
    if (c.falling) printed = two_exponential_influence(c.steps, 1.0, c.gamma, 1.0);
    const double by_print = weighted_noise(w, allocated_noise(printed, 1.0));
    CHECK(std::fabs(by_print - c.printed) < 5.1e-4);
    CHECK(by_print > least_weighted_noise(w, 1.0));
  }
}

TEST_CASE("an influence that a double cannot hold is refused, and the step named", "[influence]") {
  CHECK_THROWS_WITH(exponential_influence(100000, 0.9), ContainsSubstring("step 0 of 100000"));
  CHECK_THROWS_AS(momentum_influence(100000, 0.9, 0.9), ConfigError);
  CHECK_THROWS_AS(two_exponential_influence(100000, 0.9, 0.9, 0.5), ConfigError);
  CHECK_THROWS_AS(exponentially_allocated_noise(100000, 0.9, 1.0), ConfigError);
  CHECK_THROWS_WITH(allocated_noise(Doubles{1.0, 0.0}, 1.0), ContainsSubstring("step 1 of 2 is 0"));
  CHECK_THROWS_AS(allocated_noise(Doubles{}, 1.0), ConfigError);
  CHECK_THROWS_AS(allocated_noise(Doubles{1.0, -1.0}, 1.0), ConfigError);
}

TEST_CASE("least squares finds an exponential decay again", "[influence]") {
  for (const double rate : {0.0, 0.0076148, 0.3, -0.02}) {
    Doubles values;
    for (int t = 0; t < 60; ++t) values.push_back(5.0 * std::exp(-rate * t));
    const ExponentialDecay decay = fit_exponential_decay(values);
    CHECK_THAT(decay.rate, WithinAbs(rate, 1e-7));
    CHECK_THAT(decay.initial, WithinRel(5.0, 1e-5));
  }
  CHECK(fit_exponential_decay(Doubles{3.0}).initial == 3.0);
  // A dynamic schedule that is not exponential: the fit is a stationary point of the squared
  // distance.
  const Doubles noise = allocated_noise(momentum_influence(40, 0.9, 0.9), 1.0);
  const auto distance = [&](double initial, double rate) {
    double squares = 0.0;
    for (std::size_t t = 0; t < noise.size(); ++t) {
      squares += std::pow(noise[t] - initial * std::exp(-rate * static_cast<double>(t)), 2.0);
    }
    return squares;
  };
  const ExponentialDecay fit = fit_exponential_decay(noise);
  for (const double factor : {0.99, 1.01}) {
    CHECK(distance(fit.initial * factor, fit.rate) > distance(fit.initial, fit.rate));
    CHECK(distance(fit.initial, fit.rate * factor) > distance(fit.initial, fit.rate));
  }
}

TEST_CASE("least squares finds the gamma of estimates, noisy and negative ones among them",
          "[influence]") {
  std::vector<InfluenceEstimate> exact;
  for (const std::uint64_t step : {5, 20, 50, 99}) {
    exact.push_back({step, 3e-5 * std::pow(0.97, 99.0 - static_cast<double>(step)), 0.0});
  }
  CHECK_THAT(fit_exponential_influence(exact), WithinRel(0.97, 1e-6));
  // An early estimate below 0 has a large standard error, so it hardly counts.
  for (InfluenceEstimate& estimate : exact) estimate.standard_error = 1e-7;
  exact.push_back({0, -1e-3, 1.0});
  CHECK_THAT(fit_exponential_influence(exact), WithinRel(0.97, 1e-4));
  CHECK_THROWS_AS(fit_exponential_influence(std::vector<InfluenceEstimate>{{3, 1.0, 0.0}}),
                  ConfigError);
  CHECK_THROWS_WITH(
      fit_exponential_influence(std::vector<InfluenceEstimate>{{3, -1.0, 0.0}, {4, -2.0, 0.0}}),
      ContainsSubstring("no influence above 0"));
}
