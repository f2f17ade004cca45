// Trade-off functions of sampled Gaussian releases. Expected values: closed forms for Gaussians
// without sampling and for single releases; integrals in high precision for compositions.
#include "privgrad/statistics/sampled_trade_off.hpp"

#include <cmath>

#include "support.hpp"

using namespace privgrad::core;

namespace {

double phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

std::vector<SampledRelease> one(double probability, double noise_multiplier,
                                std::uint64_t count = 1) {
  return {{probability, noise_multiplier, count}};
}

}  // namespace

TEST_CASE("without sampling, trade-offs are those of one Gaussian, seen from the safe side") {
  for (const CoinSides sides : {CoinSides::there_or_not, CoinSides::opposites}) {
    for (const std::uint64_t count : {1u, 16u, 1000u}) {
      const double root = std::sqrt(static_cast<double>(count));
      const double mu = sides == CoinSides::opposites ? 1.0 : 0.5;
      const SampledFamily family(one(1.0, 2.0 * root, count), sides);
      const LossLaw law(one(1.0, 2.0 * root, count), sides);
      INFO(count);
      CHECK(law.epsilon(1e-5) >= gaussian_epsilon(mu, 1e-5));
      CHECK_THAT(law.epsilon(1e-5), WithinRel(gaussian_epsilon(mu, 1e-5), 1e-4));
      CHECK(family.epsilon(1.0, 1e-5) <= gaussian_epsilon(mu, 1e-5));
      CHECK_THAT(family.epsilon(1.0, 1e-5), WithinRel(gaussian_epsilon(mu, 1e-5), 1e-4));
      for (const double y : {1e-6, 0.01, 0.3, 0.5, 0.7, 0.99, 1.0 - 1e-6}) {
        const double least = TradeOff::gaussian(mu).least_probability(y);
        INFO(y);
        CHECK(family.at(1.0).least_probability(y) <= least);
        CHECK_THAT(family.at(1.0).least_probability(y), WithinAbs(least, 2e-5));
      }
      CHECK_THAT(family.at(1.0).expected_accuracy(0.1),
                 WithinAbs(expected_accuracy(mu, 0.1), 1e-4));
      CHECK_THAT(family.at(2.0).expected_accuracy(1.0), WithinAbs(phi(mu), 1e-4));
    }
  }
}

TEST_CASE("a sampled release: hockey-stick divergences in closed form") {
  // there_or_not: the events are {y > t}, with the ratio of densities e^epsilon at t, and {y < t'},
  // with the ratio e^-epsilon at t' (no such event if e^-epsilon is below 1 - q).
  const double q = 0.3, z = 0.8, epsilon = 0.25;
  const auto above = [&](double t, double mean) { return phi((mean - t) / z); };
  const double t = z * z * std::log((std::exp(epsilon) - 1.0 + q) / q) + 0.5;
  const double there =
      (1.0 - q) * above(t, 0.0) + q * above(t, 1.0) - std::exp(epsilon) * above(t, 0.0);
  const double u = z * z * std::log((std::exp(-epsilon) - 1.0 + q) / q) + 0.5;
  const double missing = (1.0 - above(u, 0.0)) -
                         std::exp(epsilon) * (1.0 - (1.0 - q) * above(u, 0.0) - q * above(u, 1.0));
  const LossLaw law(one(q, z), CoinSides::there_or_not);
  CHECK(law.delta(epsilon) >= std::max(there, missing));
  CHECK_THAT(law.delta(epsilon), WithinAbs(std::max(there, missing), 1e-5));

  // opposites: the same event on both sides, {y > t}; epsilon 0 is t = 0.
  const LossLaw both(one(q, z), CoinSides::opposites);
  const double varied = q * (above(0.0, 1.0) - above(0.0, -1.0));
  CHECK(both.delta(0.0) >= varied * (1.0 - 1e-12));
  CHECK_THAT(both.delta(0.0), WithinAbs(varied, 1e-5));
}

TEST_CASE("guesses about a sampled release are right as often as both sides of the coin allow") {
  // An attacker who always guesses: 1/2 + half the total variation, q (2 Phi(1 / 2z) - 1).
  const double q = 0.3, z = 0.8;
  const GuessCurve curve = LossLaw(one(q, z), CoinSides::there_or_not).curve();
  const double variation = q * (2.0 * phi(0.5 / z) - 1.0);
  CHECK_THAT(curve.expected_accuracy(1.0), WithinAbs(0.5 + 0.5 * variation, 1e-4));
  // At that point of the curve, correct and wrong guesses add up to 1.
  const double right = 0.5 + 0.5 * variation;
  CHECK(curve.least_probability(right) <= 1.0 - right + 1e-12);
  CHECK_THAT(curve.least_probability(right), WithinAbs(1.0 - right, 1e-4));
  // An attacker who only guesses "present" when almost certain is rarely wrong: the two directions
  // differ, and their mean counts. For "missing", the ratio of densities is at most 1 / (1 - q).
  CHECK(curve.least_probability(1e-3) < 1e-3 * (1.0 - q));
}

TEST_CASE("compositions of sampled releases, against integrals in high precision") {
  struct Golden {
    std::vector<SampledRelease> releases;
    double delta, epsilon;
  };
  const std::vector<Golden> golden{
      {one(256.0 / 60000.0, 1.1, 14063), 1e-5, 2.381689726141648742},
      {one(0.01, 1.0, 1), 1e-5, 0.1994504477959147},
      {one(0.32768, 40.0, 906), 1e-5, 0.9135145622244694},
      {one(0.001, 0.4, 1000), 1e-6, 8.63059157522418410},
      {one(0.5, 6.0, 300), 1e-5, 6.824675364737472815},
      {one(0.1, 0.8, 1000), 1e-5, 39.88008690034312951},
      {{{0.01, 1.5, 1000}, {0.01, 1.2, 1000}, {0.01, 0.9, 500}}, 1e-5, 2.331690261873964503},
      {{{1.0, 30.0, 10}, {0.01, 1.1, 1000}}, 1e-5, 1.570365008728938747},
  };
  for (const auto& [releases, delta, epsilon] : golden) {
    const double found = SampledFamily(releases, CoinSides::there_or_not).epsilon(1.0, delta);
    INFO(epsilon << ", found " << found);
    CHECK(found <= epsilon);  // the result is a lower bound on epsilon
    CHECK(found >= epsilon * 0.999);
    CHECK(LossLaw(releases, CoinSides::there_or_not).epsilon(delta) >= epsilon * (1.0 - 1e-7));
  }
}

TEST_CASE("releases of several kinds compose in any order") {
  const std::vector<SampledRelease> some{{0.1, 1.0, 20}, {1.0, 8.0, 3}, {0.02, 0.7, 50}};
  const std::vector<SampledRelease> turned{some[2], some[0], some[1]};
  const LossLaw law(some, CoinSides::there_or_not), other(turned, CoinSides::there_or_not);
  CHECK_THAT(law.epsilon(1e-5), WithinRel(other.epsilon(1e-5), 1e-9));
  CHECK(law.epsilon(1e-5) > LossLaw(one(1.0, 8.0, 3), CoinSides::there_or_not).epsilon(1e-5));
}

TEST_CASE("the factor that guesses exclude grows with how many are right") {
  const SampledFamily family(one(0.1, 1.0, 50), CoinSides::there_or_not);
  double before = -1.0;
  for (const std::uint64_t correct : {500u, 600u, 700u, 800u}) {
    const double factor = family.one_run_factor({1000, 1000, correct}, 0.01);
    INFO(correct);
    CHECK(factor > before);
    before = factor;
    if (factor == 0.0) continue;
    const GuessCurve& at = family.at(factor);
    CHECK(excludes(
        {1000, 1000, correct}, [&](double y) { return at.least_probability(y); }, 0.01));
  }
  CHECK(family.one_run_factor({1000, 1000, 500}, 0.01) == 0.0);
  CHECK(family.repeated_factor({1000, 1000, 500}, 0.01) == 0.0);
  // Independent coins prove more than the coins of one run.
  CHECK(family.repeated_factor({1000, 1000, 700}, 0.01) >=
        family.one_run_factor({1000, 1000, 700}, 0.01));
}
