#include "cli.hpp"

TEST_CASE("audit --json has the contract's keys") {
  const Cli cli;
  const Outcome outcome =
      cli.on_manifest("audit", {"--canaries", "20", "--json", "--set", "seed=1"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  const Json audit = Json::parse(outcome.out);
  CHECK(audit.at("epsilon_lower").is_number());
  CHECK(audit.at("epsilon_lower") <= audit.at("epsilon_upper"));
  CHECK(audit.at("confidence") == 0.99);
  CHECK(audit.at("method") == "one_run_gaussian");
  CHECK(audit.at("canaries") == 20);
  CHECK(audit.at("runs") == 1);
  CHECK(audit.at("contradicts") == false);
  CHECK(audit.at("bounds").size() == 3);
}

TEST_CASE("audit leaves nothing, and says what the two numbers are") {
  const Cli cli;
  const Outcome outcome =
      cli.on_manifest("audit", {"--runs", "3", "--confidence", "0.95", "--threads", "1"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("epsilon at most 1.00 (proved), at least 0.00 "
                                            "(audited, 95 %)"));
  CHECK_THAT(outcome.out, ContainsSubstring("nothing of this is for release"));
  const auto entries = std::filesystem::directory_iterator(cli.dir());
  CHECK(std::distance(begin(entries), end(entries)) == 1);  // the manifest
}

TEST_CASE("audit refuses a wrong call in one line") {
  const Cli cli;
  const auto refusal = [&](const std::vector<std::string>& options) {
    const Outcome outcome = cli.on_manifest("audit", options);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    return outcome.err;
  };
  CHECK_THAT(refusal({"--canaries", "5", "--runs", "2"}),
             ContainsSubstring("runs: is 2, allowed is [3, inf) where they choose between places"));
  CHECK_THAT(refusal({"--confidence", "1"}), ContainsSubstring("--confidence is '1', allowed is"));
  CHECK_THAT(refusal({"--canaries", "1000000"}), ContainsSubstring("allowed are at most the"));
  CHECK_THAT(refusal({"--set", "federated={clients: 2, rounds: 2, local_iterations: 2}"}),
             ContainsSubstring("federated: audits are of one owner's data"));
}
