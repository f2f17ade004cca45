// Remarks on guarantees that are proved but weak.
#include "cli.hpp"

namespace {

const Words kInRelease{"--set", "mode=release",
                       "--set", "data.transforms=[]",
                       "--set", "data={kind: synthetic, rows: 60, dimensions: 4, size: 60}"};

Outcome release(const Cli& cli, const std::string& command, const Words& more) {
  Words words = kInRelease;
  words.insert(words.end(), more.begin(), more.end());
  return cli.on_manifest(command, words);
}

bool warns(const Outcome& outcome, const std::string& what) {
  return outcome.err.find("privgrad: warning: " + what) != std::string::npos;
}

}  // namespace

TEST_CASE("a delta of 1/N and above is remarked on wherever the guarantee is stated") {
  const Cli cli;
  const Words large{"--set", "privacy.target_delta=0.02"};  // 1/60 is 0.0167
  const Outcome plan = cli.on_manifest("plan", large);
  CHECK(plan.exit_code == 0);
  CHECK(warns(plan, "delta is 0.02 for 60 examples"));
  CHECK_THAT(plan.out, ContainsSubstring("remark        delta is 0.02 for 60 examples"));

  Words words = large;
  words.insert(words.end(), {"--out", "out", "--quiet"});
  const Outcome run = cli.on_manifest("run", words);
  CHECK(run.exit_code == 0);
  CHECK(warns(run, "delta is 0.02"));
  CHECK_THAT(run.out, ContainsSubstring("remark         delta is 0.02"));
  const Json statement = Json::parse(read_file(cli.out("out/statement.json")));
  REQUIRE(statement.at("remarks").size() == 1);
  CHECK_THAT(statement.at("remarks").at(0).get<std::string>(), ContainsSubstring("well below"));
  CHECK_THAT(read_file(cli.out("out/report.html")), ContainsSubstring("Note that delta is 0.02"));
  CHECK_THAT(cli({"report", "out", "--statement"}).out,
             ContainsSubstring("Note that delta is 0.02"));
}

TEST_CASE("a delta is large from 1/N on") {
  const Cli cli;
  const auto remarks = [&](const std::string& delta) {
    const Outcome plan = cli.on_manifest(
        "plan", {"--set", "data.rows=64", "--set", "privacy.target_delta=" + delta, "--json"});
    return Json::parse(plan.out).at("remarks").size();
  };
  CHECK(remarks("0.015625") == 1);  // 1/64, exactly
  CHECK(remarks("0.015624") == 0);
}

TEST_CASE("release mode refuses a large delta, unless the manifest allows it") {
  const Cli cli;
  const Outcome refused = release(cli, "plan", {"--set", "privacy.target_delta=0.5"});
  INFO(refused.err);
  CHECK(refused.exit_code == 3);
  CHECK(line_count(refused.err) == 1);
  CHECK_THAT(refused.err, ContainsSubstring("privacy.target_delta: release mode refuses it") &&
                              ContainsSubstring("allow: {large_delta: true}"));
  const Outcome run = release(cli, "run", {"--set", "privacy.target_delta=0.5", "--out", "out"});
  CHECK(run.exit_code == 3);
  CHECK_FALSE(std::filesystem::exists(cli.out("out")));

  const Outcome allowed = release(
      cli, "plan", {"--set", "privacy.target_delta=0.5", "--set", "allow={large_delta: true}"});
  INFO(allowed.err);
  CHECK(allowed.exit_code == 0);
  CHECK_THAT(allowed.err, ContainsSubstring("(allow.large_delta accepts it)"));
  CHECK(release(cli, "plan", {}).exit_code == 0);
}

TEST_CASE("where clients are the unit, delta is compared with their number") {
  const Cli cli;
  const auto plan = [&](const std::string& delta) {
    return cli.on_manifest(
        "plan", {"--set", "privacy.target_delta=" + delta, "--set",
                 "federated={clients: 10, rounds: 3, aggregation: dp_fed_avg, local_iterations: 1, "
                 "client_clip_norm: 1}",
                 "--set", "steps=3", "--set", "schedules.noise_multiplier=null"});
  };
  const Outcome large = plan("0.1");
  INFO(large.err);
  CHECK(large.exit_code == 0);
  CHECK(warns(large, "delta is 0.1 for 10 clients"));
  CHECK(plan("0.05").err == "");  // more than one in 60 examples
}

TEST_CASE("an epsilon above 20 is remarked on and never refused") {
  const Cli cli;
  const Words words{"--set", "privacy.target_epsilon=25"};
  const Outcome plan = cli.on_manifest("plan", words);
  CHECK(plan.exit_code == 0);
  CHECK(warns(plan, "epsilon is 25, and above 20"));
  CHECK(release(cli, "plan", words).exit_code == 0);
  CHECK(cli.on_manifest("plan", {"--set", "privacy.target_epsilon=20"}).err == "");
}

TEST_CASE("without noise there is no guarantee to remark on") {
  const Cli cli;
  const Outcome plan =
      cli.on_manifest("plan", {"--set", "privacy.noise=off", "--set", "privacy.target_delta=0.5"});
  INFO(plan.err);
  CHECK(plan.exit_code == 0);
  CHECK(plan.err == "");
}

TEST_CASE("what a study compares is remarked on as a run is") {
  const Cli cli;
  const auto study = [&](const std::string& name, const std::string& more) {
    write_file(cli.dir() / (name + ".yaml"),
               "study: 1\nbase: small.yaml\nseeds: 2\n"
               "metrics: [test_loss]\n" +
                   more);
    const Outcome outcome = cli({"ablate", name + ".yaml", "--quiet", "--out", name});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 0);
    return outcome;
  };
  // All arms have the same guarantee: each sentence appears once.
  const Outcome large = study("large",
                              "axes: {optimizer: [sgd, adam]}\n"
                              "set: {privacy.target_epsilon: 25, privacy.target_delta: 0.02}\n");
  CHECK(line_count(large.err) == 2);
  CHECK(warns(large, "epsilon is 25, and above 20"));
  CHECK(warns(large, "delta is 0.02 for 60 examples"));
  CHECK_THAT(large.out, ContainsSubstring("\nremark: epsilon is 25, and above 20"));
  CHECK_THAT(large.out, ContainsSubstring("\nremark: delta is 0.02"));
  CHECK(Json::parse(read_file(cli.out("large/study.json"))).at("remarks").size() == 2);
  CHECK_THAT(read_file(cli.out("large/report.html")),
             ContainsSubstring("epsilon is 25, and above"));

  // Sentences about only some of the arms name these arms.
  const Outcome some =
      study("some", "axes: {privacy.target_epsilon: [1, 30]}\nequal_privacy: false\n");
  CHECK(line_count(some.err) == 1);
  CHECK(warns(some, "30: epsilon is "));

  CHECK(study("none", "axes: {optimizer: [sgd, adam]}\n").err == "");
}
