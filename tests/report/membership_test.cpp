// The line of a statement about the most that a membership test can find.
#include <cmath>

#include "page.hpp"
#include "privgrad/statement/membership.hpp"
#include "privgrad/value.hpp"

using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using privgrad::core::most_found;

namespace {

double phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// Returns the power of the best test against the Gaussian mechanism with 5 false accusations in
/// 100: Phi(mu - z), with z the 0.95 quantile (Neyman and Pearson 1933).
double found_of_gaussian(double mu) { return phi(mu - 1.6448536269514722); }

/// Returns the noise of 12 full batches that together are one Gaussian with this mu.
double noise_of(double mu) { return std::sqrt(12.0) / mu; }

Json statement_of_gaussian(const Cli& cli, double mu, const std::string& accountant,
                           const Words& more = {}) {
  static int number = 0;
  const std::string run = "run-" + std::to_string(++number);
  Words set{"--set", "schedules.noise_multiplier=" + privgrad::format_number(noise_of(mu)), "--set",
            "privacy={target_delta: 1e-5, adjacency: zero_out, accountant: " + accountant + "}"};
  set.insert(set.end(), more.begin(), more.end());
  page_of_run(cli, set, run);
  return statement_of(cli, run);
}

double found(const Json& statement) {
  return statement.at("membership_test").at("found_at_most").get<double>();
}

/// Returns the number in "finds at most N of 100 members".
int shown(const Json& statement) {
  const std::string line = statement.at("lead").at(1);
  const std::string before = "finds at most ";
  const std::size_t at = line.find(before);
  REQUIRE(at != line.npos);
  return std::stoi(line.substr(at + before.size()));
}

}  // namespace

TEST_CASE("a point of a trade-off bounds what a test finds, from both sides") {
  // The bounds are e^epsilon 0.05 + delta and 1 - e^-epsilon (1 - delta - 0.05).
  CHECK_THAT(most_found(0.05, std::log(2.0), 0.01), WithinAbs(0.11, 1e-12));
  CHECK_THAT(most_found(0.05, std::log(10.0), 0.25), WithinAbs(0.75, 1e-12));
  CHECK_THAT(most_found(0.05, std::log(20.0), 0.15), WithinAbs(0.96, 1e-12));
  CHECK(most_found(0.05, 0.0, 0.0) >= 0.05);
  CHECK(most_found(0.05, HUGE_VAL, 1e-5) == 1.0);
  CHECK(most_found(0.05, 1.0, 1.0) == 1.0);
}

TEST_CASE("of a Gaussian mechanism, a statement says what the best test finds, rounded up") {
  const Cli cli;
  // For the second and third mu the power is just above a whole percentage: 13.02 and 26.02.
  for (const double mu : {0.3, 0.5196, 1.0024, 1.7, 3.0}) {
    INFO(mu);
    const Json statement = statement_of_gaussian(cli, mu, "pld");
    const double best = found_of_gaussian(mu);
    CHECK(found(statement) >= best);
    CHECK(found(statement) < best + 1e-6);
    CHECK(shown(statement) == std::ceil(100.0 * best));
  }
}

TEST_CASE("other accountants prove no less than what the best test finds") {
  const Cli cli;
  for (const char* accountant : {"zcdp", "rdp", "gdp", "saddle_point"}) {
    INFO(accountant);
    const Json statement = statement_of_gaussian(cli, 1.0, accountant);
    CHECK(found(statement) >= found_of_gaussian(1.0));
    // The stated epsilon alone would only prove a much larger bound.
    CHECK(found(statement) <
          most_found(0.05, statement.at("epsilon"), statement.at("delta")) - 0.1);
  }
}

TEST_CASE("with noise that adapts, the stated point alone is proved") {
  const Cli cli;
  page_of_run(cli, {"--set",
                    "schedules.noise_multiplier={kind: descent_check, initial: 50, every: 5, "
                    "loss_bound: 2, check_noise_multiplier: 60}"});
  const Json statement = statement_of(cli);
  REQUIRE(statement.at("mechanism").contains("adaptive_noise"));
  CHECK(found(statement) == most_found(0.05, statement.at("epsilon"), statement.at("delta")));
  CHECK(shown(statement) == 14);  // e 0.05 + 1e-5
}

TEST_CASE("a statement begins with who is protected, how much, and what its numbers mean") {
  const Cli cli;
  page_of_run(cli, {"--set", "mode=release"});
  const Json statement = statement_of(cli);
  const Json& lead = statement.at("lead");
  REQUIRE(lead.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(statement.at("prose").at(i) == lead.at(i));
  CHECK_THAT(lead.at(0).get<std::string>(), StartsWith("Who is protected. Each single training"));
  CHECK_THAT(lead.at(1).get<std::string>(),
             ContainsSubstring("wrongly accuses 5 of 100 outsiders"));
  CHECK_THAT(lead.at(2).get<std::string>(),
             StartsWith("Epsilon and delta. Epsilon is at most 1 at delta = 1e-05: "));
  CHECK_THAT(lead.at(2).get<std::string>(),
             ContainsSubstring("gives it away with a probability of 1 in 100000,") &&
                 ContainsSubstring("at most 2.72 times as likely, or as unlikely, with the example "
                                   "as without it."));

  page_of_run(cli, {"--set", "privacy.noise=off"}, "off");
  CHECK(statement_of(cli, "off").at("lead").empty());
  CHECK(statement_of(cli, "off").at("membership_test").is_null());
  page_of_run(cli, {"--set", "privacy.adjacency=replace_one"}, "replaced");
  CHECK_THAT(statement_of(cli, "replaced").at("lead").at(2).get<std::string>(),
             EndsWith("with the example as with any other in its place."));
  const Json little = statement_of_gaussian(cli, 30.0, "zcdp");
  CHECK_THAT(little.at("lead").at(1).get<std::string>(), ContainsSubstring("finding every member"));
}

TEST_CASE("one in so many is never less likely than delta") {
  const Cli cli;
  const Json statement = statement_of_gaussian(
      cli, 1.0, "zcdp",
      {"--set", "privacy.target_delta=0.00123", "--set", "allow={large_delta: true}"});
  // 1 / 0.00123 is 813.008.
  CHECK_THAT(statement.at("lead").at(2).get<std::string>(),
             ContainsSubstring("with a probability of 1 in 813,"));
}
