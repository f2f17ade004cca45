// Plans keep every step: what would not fit is refused before anything is made.
#include "cli.hpp"

namespace {

/// `privgrad plan small.yaml MORE...` with memory that a hundred million steps do not fit into.
Outcome plan_in_a_gigabyte(const Cli& cli, const Words& more) {
  Call what = cli.prepare({"plan", "small.yaml"});
  what.words.insert(what.words.end(), more.begin(), more.end());
  std::string line = "ulimit -v 1500000; exec \"$@\"";
  what.words.insert(what.words.begin(), {"/bin/sh", "-c", line, "sh"});
  return call(what);
}

}  // namespace

TEST_CASE("a hundred million steps are refused in one line, and at once") {
  const Cli cli;
  for (const std::string command : {"steps=100000000", "steps=5000001"}) {
    const Outcome outcome = plan_in_a_gigabyte(cli, {"--set", command});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(line_count(outcome.err) == 1);
    CHECK_THAT(outcome.err,
               ContainsSubstring("steps: is ") && ContainsSubstring("allowed is [1, 5e+06]"));
  }
}

// 61 examples of two clients are 31 and 30: two sizes, each with a plan of its own.
TEST_CASE("clients of several sizes have plans that fit together, or are refused") {
  const Cli cli;
  const auto plan = [&](const std::string& steps, const std::string& rows) {
    return plan_in_a_gigabyte(
        cli, {"--set", "data.rows=" + rows, "--set", "steps=" + steps, "--set",
              "federated={clients: 2, rounds: 3000000, local_iterations: 1}", "--set",
              "evaluate_every=null", "--set", "schedules.noise_multiplier=1000000"});
  };
  const Outcome refused = plan("2500001", "61");
  INFO(refused.err);
  CHECK(refused.exit_code == 2);
  CHECK(line_count(refused.err) == 1);
  CHECK_THAT(refused.err, ContainsSubstring("steps: is 2500001 for each of 2 sizes of shards") &&
                              ContainsSubstring("allowed are 2500000"));
  // The same steps of clients of one size are one plan's, and pass this check.
  CHECK_THAT(plan("2500001", "60").err, !ContainsSubstring("sizes of shards"));
}
