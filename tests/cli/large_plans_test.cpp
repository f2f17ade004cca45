// Plans store every step: plans that do not fit in memory are refused before anything is made, and
// slow plans show their progress.
#include <csignal>

#include "cli.hpp"

namespace {

/// Runs `privgrad plan small.yaml MORE...` with too little memory for a hundred million steps.
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
  for (const std::string steps : {"steps=100000000", "steps=5000001"}) {
    const Outcome outcome = plan_in_a_gigabyte(cli, {"--set", steps});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(line_count(outcome.err) == 1);
    CHECK_THAT(outcome.err,
               ContainsSubstring("steps: is ") && ContainsSubstring("allowed is [1, 5e+06]"));
  }
}

// 61 examples give two clients 31 and 30, and four clients 16 and 15: two sizes, each with its own
// plan. Of 5 000 000 steps in total, each plan may have half.
TEST_CASE("clients of several sizes whose plans would not fit together are refused") {
  const Cli cli;
  for (const std::string clients : {"2", "4"}) {
    const Outcome refused = plan_in_a_gigabyte(
        cli, {"--set", "data.rows=61", "--set", "steps=2500001", "--set",
              "federated={clients: " + clients + ", rounds: 3000000, local_iterations: 1}"});
    INFO(refused.err);
    CHECK(refused.exit_code == 2);
    CHECK(line_count(refused.err) == 1);
    CHECK_THAT(refused.err, ContainsSubstring("steps: is 2500001 for each of 2 sizes of shards") &&
                                ContainsSubstring("allowed are 2500000"));
  }
}

// Each step has different noise, and the accountant computes a separate bound for each step and
// scale.
TEST_CASE("a plan that takes long says on a terminal how far the search for its noise is") {
  const Cli cli;
  Call plan = cli.prepare(
      {"plan", "small.yaml", "--set", "steps=1000000", "--set",
       "sampler={kind: poisson, batch_size: 6}", "--set",
       "privacy={target_epsilon: 1, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: "
       "rdp}",
       "--set", "schedules.noise_multiplier={kind: exponential, rate: -1e-9}"});
  plan.terminal = true;
  Process process(plan);
  REQUIRE(process.says(" of the calibration\033[K"));
  process.send(SIGKILL);
  CHECK_THAT(process.finish().err, ContainsSubstring("\rplanning: "));
}
