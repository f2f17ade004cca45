// The step counts of Ling et al. 2023 (ALI-DPFL), section VI, and their errors.
#include <algorithm>
#include <cmath>

#include "cli.hpp"

namespace {

/// 75 of 5000 examples per step, noise 1.1: the setting of the counts in the paper.
constexpr double kRate = 0.015, kSigma = 1.1, kDelta = 1e-5;

/// Returns an accountant with whole orders from 2 to 64 and the classic conversion.
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

namespace {

/// Returns epsilon of `steps` steps by the corrected Eq. 14: eps(a) = T/(a-1) ln sum_k binom(a,k)
/// (1-q)^(a-k) q^k exp((k^2-k)/(2 sigma^2)) + ln(1/delta)/(a-1), for the best order. Without the
/// logarithm the sum, which is about 1, would already cost T/(a-1).
double epsilon_by_formula(std::uint64_t steps, bool with_logarithm = true) {
  const auto moment = [](int order) {
    double sum = 0.0, binomial = 1.0;
    for (int k = 0; k <= order; ++k) {
      sum += binomial * std::pow(1.0 - kRate, order - k) * std::pow(kRate, k) *
             std::exp((k * k - k) / (2.0 * kSigma * kSigma));
      binomial *= static_cast<double>(order - k) / (k + 1);
    }
    return sum;
  };
  double least = HUGE_VAL;
  for (int order = 2; order <= 64; ++order) {
    const double one = with_logarithm ? std::log(moment(order)) : moment(order);
    least = std::min(least, (static_cast<double>(steps) * one - std::log(kDelta)) / (order - 1));
  }
  return least;
}

}  // namespace

// Expected values: the formula above, and 50-digit arithmetic for seven of the rows (golden values
// alidpfl_steps). The authors' own counts exceed their targets by up to 0.01: an epsilon of 2.0
// does not pay for the printed 317 steps. The rows are those of docs/algorithms/ali-dpfl.md.
TEST_CASE("the local steps that each epsilon of the paper supports") {
  const std::string theirs = their_accountant();
  const std::string page = read_file(kSource / "docs/algorithms/ali-dpfl.md");
  struct Row {
    const char* epsilon;
    std::uint64_t printed, within, pld;
  };
  for (const Row& row :
       {Row{"1.55", 79, 78, 422}, Row{"1.65", 122, 118, 482}, Row{"1.75", 177, 174, 545},
        Row{"1.85", 231, 230, 611}, Row{"2.0", 317, 314, 716}, Row{"2.25", 457, 454, 906},
        Row{"2.5", 598, 596, 1115}, Row{"2.75", 775, 770, 1341}, Row{"3.25", 1123, 1119, 1843},
        Row{"3.75", 1585, 1537, 2408}}) {
    INFO("epsilon " << row.epsilon);
    const double target = std::stod(row.epsilon);
    CHECK(epsilon_by_formula(row.within) <= target);
    CHECK(epsilon_by_formula(row.within + 1) > target);
    CHECK(steps_for(theirs, row.epsilon) == row.within);
    CHECK(row.within < row.printed);
    // A tight accountant pays for more steps: never more than the exact count (the contour integral
    // of saddle_point), and fewer only by the error of its grid.
    const std::uint64_t exact = steps_for("saddle_point", row.epsilon);
    CHECK(steps_for("pld", row.epsilon) == row.pld);
    CHECK(row.pld <= exact);
    CHECK(static_cast<double>(row.pld) > 0.99 * static_cast<double>(exact));
    CHECK_THAT(page,
               ContainsSubstring("| " + std::string(row.epsilon) + " | " +
                                 std::to_string(row.printed) + " | " + std::to_string(row.within) +
                                 " | " + std::to_string(row.pld) + " |"));
  }
}

TEST_CASE("errata of Eq. 14: with the logarithm, and T terms", "[errata]") {
  CHECK_THAT(epsilon_by_formula(314), WithinRel(1.9996731667964665, 1e-9));
  CHECK(epsilon_by_formula(314, false) > 3.0);
  // Charging T + 1 terms, as in a sum from 0 to T, would make one step fewer affordable.
  CHECK(epsilon_by_formula(314) <= 2.0);
  CHECK(epsilon_by_formula(315) > 2.0);
}
