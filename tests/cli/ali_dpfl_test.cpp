// The step counts of Ling et al. 2023 (ALI-DPFL), section VI, and what is wrong with them.
#include <cmath>

#include "cli.hpp"

namespace {

/// 75 of 5000 examples at a time, noise 1.1: what the counts in the paper are for.
constexpr double kRate = 0.015, kSigma = 1.1, kDelta = 1e-5;

/// Whole orders from 2 to 64, classic conversion.
std::string their_accountant() {
  std::string orders;
  for (int order = 2; order <= 64; ++order)
    orders += (order == 2 ? "" : ", ") + std::to_string(order);
  return "{kind: rdp, conversion: classic, orders: [" + orders + "]}";
}

std::uint64_t steps_for(const std::string& accountant, const std::string& epsilon) {
  const Cli cli;
  const Outcome outcome =
      cli({"calibrate", "--accountant", accountant, "--target-epsilon", epsilon, "--target-delta",
           "1e-5", "--sample-rate", "0.015", "--noise-multiplier", "1.1", "--json"});
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out).at("steps").get<std::uint64_t>();
}

}  // namespace

// Expected: 50-digit arithmetic (golden values alidpfl_steps). The authors' own counts overshoot
// their targets by up to 0.01: 2.0 does not pay for the 317 steps that are printed.
TEST_CASE("the local steps that each epsilon of the paper supports") {
  const std::string theirs = their_accountant();
  struct Row {
    const char* epsilon;
    std::uint64_t printed, within;
  };
  for (const Row& row :
       {Row{"1.55", 79, 78}, Row{"1.65", 122, 118}, Row{"1.85", 231, 230}, Row{"2", 317, 314},
        Row{"2.5", 598, 596}, Row{"2.75", 775, 770}, Row{"3.75", 1585, 1537}}) {
    INFO("epsilon " << row.epsilon);
    CHECK(steps_for(theirs, row.epsilon) == row.within);
    CHECK(row.within < row.printed);
  }
}

TEST_CASE("a tight accountant pays for more than twice the steps at epsilon 2") {
  // The exact count: the contour integral of saddle_point, at most the grid's error above pld.
  const std::uint64_t grid = steps_for("pld", "2");
  CHECK(grid > 2 * 314);
  CHECK(grid <= steps_for("saddle_point", "2"));
}

TEST_CASE("errata of Eq. 14: with the logarithm, and T terms", "[errata]") {
  // eps(a) = T/(a-1) ln sum_k binom(a,k) (1-q)^(a-k) q^k exp((k^2-k)/(2 sigma^2)) +
  // ln(1/delta)/(a-1). Without the logarithm the sum, which is about 1, would cost T/(a-1) alone.
  const auto moment = [](int order) {
    double sum = 0.0, binomial = 1.0;
    for (int k = 0; k <= order; ++k) {
      sum += binomial * std::pow(1.0 - kRate, order - k) * std::pow(kRate, k) *
             std::exp((k * k - k) / (2.0 * kSigma * kSigma));
      binomial *= static_cast<double>(order - k) / (k + 1);
    }
    return sum;
  };
  const auto epsilon = [&](double steps, bool with_logarithm) {
    double least = HUGE_VAL;
    for (int order = 2; order <= 64; ++order) {
      const double one = with_logarithm ? std::log(moment(order)) : moment(order);
      least = std::min(least, (steps * one - std::log(kDelta)) / (order - 1));
    }
    return least;
  };
  CHECK_THAT(epsilon(314, true), WithinRel(1.9996731667964665, 1e-9));
  CHECK(epsilon(314, false) > 3.0);
  // T + 1 terms, as the sum from 0 to T has them, would leave one step less.
  CHECK(epsilon(314, true) <= 2.0);
  CHECK(epsilon(315, true) > 2.0);
}
