// What guesses prove about epsilon. Expected values come from Python with scipy 1.x: binomials from
// scipy.stats, and bounds by trade-off functions as linear programs (scipy.optimize.linprog) over
// all distributions of the number of correct guesses, independently of the greedy solution.
#include <cmath>
#include <limits>

#include "privgrad/statistics/audit_statistics.hpp"
#include "support.hpp"

using namespace privgrad::core;

TEST_CASE("Clopper and Pearson's bounds are quantiles of beta laws") {
  CHECK_THAT(proportion_above(60, 100, 0.01), WithinAbs(0.47890361279771204, 1e-9));
  CHECK_THAT(proportion_below(60, 100, 0.01), WithinAbs(0.7129193894196042, 1e-9));
  CHECK_THAT(proportion_above(1, 1000, 0.005), WithinRel(5.012529260777506e-06, 1e-6));
  CHECK(proportion_above(0, 10, 0.01) == 0.0);
  CHECK(proportion_below(10, 10, 0.01) == 1.0);
  // If all n guesses are correct, the bound p has p^n = level.
  CHECK_THAT(proportion_above(50, 50, 0.01), WithinAbs(std::pow(0.01, 1.0 / 50.0), 1e-9));
}

TEST_CASE("one run: the p-value of Steinke, Nasr and Jagielski") {
  CHECK_THAT(one_run_p_value({1000, 1000, 600}, 0.3, 0.0), WithinRel(0.05420718855127691, 1e-7));
  CHECK_THAT(one_run_p_value({1000, 200, 150}, 0.9, 1e-5), WithinRel(0.12738961847032562, 1e-7));
  CHECK_THAT(one_run_p_value({500, 100, 70}, 0.5, 1e-3), WithinRel(0.13071244047512415, 1e-7));
  CHECK(one_run_p_value({10, 10, 0}, 1.0, 0.0) == 1.0);
}

TEST_CASE("one run: the largest epsilon that is excluded") {
  CHECK_THAT(one_run_epsilon({1000, 100, 95}, 1e-5, 0.05), WithinAbs(2.165175799714052, 2e-6));
  CHECK_THAT(one_run_epsilon({1000, 1000, 620}, 1e-5, 0.01), WithinAbs(0.3358317067244921, 2e-6));
  // 50 of 50 without delta: q^50 = 0.01, epsilon = log(q / (1 - q)).
  const double q = std::pow(0.01, 1.0 / 50.0);
  CHECK_THAT(one_run_epsilon({200, 50, 50}, 0.0, 0.01), WithinAbs(std::log(q / (1 - q)), 2e-6));
  CHECK(one_run_epsilon({1000, 1000, 500}, 1e-5, 0.01) == 0.0);
  CHECK(one_run_epsilon({1000, 1000, 0}, 1e-5, 0.01) == 0.0);
}

TEST_CASE("trade-off functions: the greedy solution is that of the linear program") {
  const auto at_most = [](const Guesses& guesses, double epsilon, double delta, double most) {
    const TradeOff one = TradeOff::approximate(epsilon, delta);
    return excludes(guesses, one, most * 1.0001) && !excludes(guesses, one, most * 0.9999);
  };
  CHECK(at_most({100, 40, 33}, 0.8, 1e-3, 0.05194520843980003));
  CHECK(at_most({60, 60, 45}, 0.5, 0.0, 0.02886692308228826));
  CHECK(at_most({50, 20, 18}, 1.0, 1e-2, 0.10670233296861042));
  CHECK_THAT(f_dp_epsilon({100, 40, 36}, 1e-3, 0.01), WithinAbs(0.9527888263196691, 3e-6));
  CHECK_THAT(f_dp_epsilon({60, 60, 50}, 1e-5, 0.01), WithinAbs(0.8026004657903459, 3e-6));
  CHECK_THAT(f_dp_epsilon({50, 20, 19}, 0.0, 0.05), WithinAbs(1.2764782680129423, 3e-6));
}

TEST_CASE("trade-off functions: Gaussian ones, by a linear program of their tangents") {
  // 160 tangents enclose the curve from outside, so the program's mu is slightly smaller.
  CHECK_THAT(f_dp_mu({40, 40, 32}, 0.05), WithinAbs(0.4249634315622786, 1e-3));
  CHECK_THAT(f_dp_mu({60, 20, 19}, 0.01), WithinAbs(0.39174654159083633, 1e-3));
  CHECK(f_dp_mu({100, 100, 50}, 0.01) == 0.0);
}

TEST_CASE("the inverse of a trade-off function") {
  // x = 0.2: 1 - f(x) is e^1 0.2 + 0.01 on one side, and 1 - e^-1 (0.99 - x) on the other.
  const TradeOff one = TradeOff::approximate(1.0, 0.01);
  CHECK_THAT(one.least_probability(std::exp(1.0) * 0.2 + 0.01), WithinAbs(0.2, 1e-12));
  CHECK_THAT(one.least_probability(1.0 - std::exp(-1.0) * (0.99 - 0.9)), WithinAbs(0.9, 1e-12));
  CHECK(one.least_probability(0.005) == 0.0);
  // Phi(Phi^-1(x) + mu) at x = 1/2, mu = 1: Phi(1).
  CHECK_THAT(TradeOff::gaussian(1.0).least_probability(0.8413447460685429), WithinAbs(0.5, 1e-12));
}

TEST_CASE("repeated runs") {
  CHECK_THAT(repeated_mu({1000, 1000, 600}, 0.01), WithinAbs(0.31775868384657036, 1e-6));
  CHECK(repeated_mu({1000, 1000, 500}, 0.01) == 0.0);
  CHECK_THAT(repeated_epsilon({1000, 100, 90}, 1e-5, 0.01), WithinAbs(1.164600359662804, 1e-6));
  CHECK(repeated_epsilon({1000, 100, 0}, 1e-5, 0.01) == 0.0);
}

TEST_CASE("Gaussian differential privacy and epsilon") {
  CHECK_THAT(gaussian_delta(1.0, 1.0), WithinRel(0.12693673750664392, 1e-9));
  CHECK_THAT(gaussian_delta(2.0, 5.0), WithinRel(0.03228198475007283, 1e-9));
  CHECK_THAT(gaussian_epsilon(1.0, 1e-5), WithinRel(4.377178095681225, 1e-6));
  CHECK_THAT(gaussian_epsilon(0.5, 1e-5), WithinRel(1.9930914044151173, 1e-6));
  CHECK_THAT(gaussian_epsilon(5.0, 1e-6), WithinRel(35.566343714136295, 1e-6));
  CHECK_THAT(gaussian_mu(4.377178095681225, 1e-5), WithinAbs(1.0, 2e-6));
  CHECK(gaussian_epsilon(0.5, 0.5) == 0.0);
  CHECK(gaussian_epsilon(0.0, 1e-5) == 0.0);
  // Here e^epsilon exceeds the range of doubles.
  CHECK(std::isfinite(gaussian_epsilon(60.0, 1e-5)));
  CHECK(gaussian_epsilon(60.0, 1e-5) > 1800.0);
  CHECK(std::isinf(gaussian_epsilon(std::numeric_limits<double>::infinity(), 1e-5)));
}

TEST_CASE("how many canaries to guess") {
  CHECK_THAT(expected_accuracy(1.0, 1.0), WithinAbs(0.6914624612740131, 1e-9));  // Phi(1/2)
  CHECK_THAT(expected_accuracy(1.0, 0.1), WithinAbs(0.9032584288904566, 1e-9));
  CHECK_THAT(expected_accuracy(3.0, 0.5), WithinAbs(0.9973297196534089, 1e-9));
  const Guesses best =
      best_guesses(1000, 1.0, [](const Guesses& g) { return f_dp_epsilon(g, 1e-5, 0.01); });
  CHECK(best.canaries == 1000);
  CHECK(best.made < 1000);  // without undecided guesses
  CHECK(best.made > 10);
}
