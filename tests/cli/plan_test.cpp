#include <cmath>

#include "cli.hpp"

TEST_CASE("plan --json has the contract's keys, one value per step") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("plan", {"--json"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  const Json plan = Json::parse(outcome.out);
  CHECK(plan.at("steps") == 12);
  CHECK(plan.at("noise_multiplier").size() == 12);
  CHECK(plan.at("clip_norm") == Json(std::vector<double>(12, 1.0)));
  CHECK(plan.at("learning_rate") == Json(std::vector<double>(12, 0.5)));
  CHECK(plan.at("delta") == 1e-5);
  CHECK(plan.at("parameters") == 10);  // (4 features + 1 bias) x 2 classes
  CHECK(plan.at("unaccounted").is_array());
  const Json& zcdp = plan.at("accountants").at("zcdp");
  CHECK(zcdp.at("bound") == "upper");
  CHECK(zcdp.contains("lower"));
  CHECK(zcdp.at("epsilon") == plan.at("epsilon"));
  // Calibration is one-sided and almost exact.
  CHECK(plan.at("epsilon") <= 1.0);
  CHECK(plan.at("epsilon") > 0.999);
  const Json& event = plan.at("event");
  CHECK(event.at("event") == "self_composed");
  CHECK(event.at("count") == 12);
  CHECK(event.at("of").at("event") == "gaussian");
  CHECK(event.at("of").at("noise_multiplier") == plan.at("noise_multiplier").at(0));
}

TEST_CASE("plan trains nothing and leaves nothing") {
  const Cli cli;
  REQUIRE(cli.on_manifest("plan").exit_code == 0);
  const auto entries = std::filesystem::directory_iterator(cli.dir());
  CHECK(std::distance(begin(entries), end(entries)) == 1);  // the manifest
}

TEST_CASE("an override by --set changes the plan") {
  const Cli cli;
  const auto noise = [&](const std::string& target) {
    const Outcome outcome =
        cli.on_manifest("plan", {"--set", "privacy.target_epsilon=" + target, "--json"});
    return Json::parse(outcome.out).at("noise_multiplier").at(0).get<double>();
  };
  // For small epsilon the noise is proportional to 1 / epsilon; the exact factor depends on delta.
  CHECK(noise("0.5") > 1.8 * noise("1"));
  CHECK(noise("0.5") < 2.2 * noise("1"));
}

TEST_CASE("the plan page names every component in full, and what it costs") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("plan");
  CHECK(outcome.err == "");
  for (const char* text :
       {"privgrad.synthetic:synthetic", "privgrad.linear:linear", "privgrad.cpu:cpu",
        "privgrad.full_batch:full_batch", "privgrad.gaussian:gaussian", "privgrad.sgd:sgd",
        "privgrad.uniform:uniform", "privgrad.zcdp:zcdp", "epsilon 1", "1e-05", "zero_out",
        "12 x gaussian", "training metrics, test metrics"}) {
    CHECK_THAT(outcome.out, ContainsSubstring(text));
  }
}

TEST_CASE("the plan page draws a falling schedule, in ASCII unless the locale has more") {
  const Cli cli;
  Call plan = cli.prepare({"plan", "small.yaml", "--set",
                           "schedules.learning_rate={kind: list, values: "
                           "[8, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1]}"});
  CHECK_THAT(call(plan).out, ContainsSubstring("#*+=~-._____"));
  plan.environment["LC_ALL"] = "C.UTF-8";
  CHECK_THAT(call(plan).out, ContainsSubstring("█▇▆▅▄▃▂▁▁▁▁▁"));
}

TEST_CASE("an epsilon is never shown below its value") {
  const Cli cli;
  for (const char* noise : {"3", "7", "11", "13.7", "29"}) {
    const Words set{"--set", std::string("schedules.noise_multiplier=") + noise, "--set",
                    "privacy.target_epsilon=null"};
    Words json = set;
    json.push_back("--json");
    const double epsilon =
        Json::parse(cli.on_manifest("plan", json).out).at("epsilon").get<double>();
    const std::string page = cli.on_manifest("plan", set).out;
    const std::string head = "small: epsilon ";
    REQUIRE(page.starts_with(head));
    const double shown = std::stod(page.substr(head.size()));
    INFO(page.substr(0, page.find('\n')) << " for " << epsilon);
    CHECK(shown >= epsilon);
    CHECK(shown <= epsilon * (1.0 + 1e-5));  // six digits
  }
}

TEST_CASE("a budget that pays for fewer steps is said in the plan") {
  const Cli cli;
  const Words set{"--set", "schedules.noise_multiplier=10"};
  Words json = set;
  json.push_back("--json");
  const Json plan = Json::parse(cli.on_manifest("plan", json).out);
  const auto affordable = plan.at("affordable_steps").get<int>();
  CHECK(affordable > 0);
  CHECK(affordable < 12);
  CHECK_THAT(cli.on_manifest("plan", set).out,
             ContainsSubstring(std::to_string(affordable) + " of 12: the budget pays for no more"));
}

TEST_CASE("validate prints nothing for a manifest that is right") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("validate");
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "");
  CHECK(outcome.err == "");
}

TEST_CASE("broken manifests get all errors, each with its place, and exit code 2") {
  const Cli cli;
  write_file(cli.manifest(), R"(privgrad: 1
name: small
data: {kind: synthetic, rows: 60, dimensions: 4}
model: {kind: liner}
sampler: {kind: full_batch}
optimizer: {kind: momentum, beta: 1}
schedules: {noise_multiplier: {kind: uniform}, clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 1, target_delta: 2, adjacency: zero_out, accountant: zcdp}
stepz: 12
)");
  for (const char* command : {"validate", "plan", "run"}) {
    const Outcome outcome = cli.on_manifest(command);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK_THAT(outcome.err, ContainsSubstring("small.yaml:4:15: error: "));
    CHECK_THAT(outcome.err, ContainsSubstring("did you mean 'linear'?"));
    CHECK_THAT(outcome.err, ContainsSubstring("small.yaml:6:35: error: "));
    CHECK_THAT(outcome.err, ContainsSubstring("small.yaml:8:44: error: "));
    CHECK_THAT(outcome.err, ContainsSubstring("small.yaml:9:1: error: "));
    CHECK_THAT(outcome.err, ContainsSubstring("did you mean 'steps'?"));
    CHECK(outcome.err.find("privgrad: error:") == std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(cli.out("runs")));
}

TEST_CASE("validate also finds what the parameters of one component say together") {
  const Cli cli;
  // Clusters on the corners of a hypercube come in pairs.
  const Outcome outcome =
      cli.on_manifest("validate", {"--set",
                                   "data={kind: synthetic, rows: 60, dimensions: 4, shape: "
                                   "hypercube_clusters, classes: 3}"});
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("error: data: "));
}

TEST_CASE("an override that is wrong is named as such") {
  const Cli cli;
  const Outcome outcome = cli.on_manifest("validate", {"--set", "optimizer.beta=2"});
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("--set optimizer.beta: error: "));
  CHECK(cli.on_manifest("validate", {"--set", "nonsense"}).exit_code == 2);
}

TEST_CASE("what is wrong with files is exit code 4") {
  const Cli cli;
  check_one_error_line(cli({"validate", "absent.yaml"}), 4);
  const Outcome missing =
      cli.on_manifest("plan", {"--set", "data={kind: csv, train: absent.csv, target: a}"});
  CHECK(missing.exit_code == 4);
  CHECK(missing.out == "");
  CHECK_THAT(missing.err, ContainsSubstring("absent.csv"));
  CHECK(line_count(missing.err) == 1);
}

TEST_CASE("what is refused for privacy is exit code 3") {
  const Cli cli;
  struct Refused {
    Words set;
    std::string expected;
  };
  const Refused calls[] = {
      {{"--set", "privacy.target_epsilon=1e-9", "--set", "schedules.noise_multiplier=1"},
       "does not pay for a single step"},
      {{"--set", "sampler={kind: poisson, sample_rate: 0.1}", "--set",
        "privacy.adjacency=add_or_remove_one"},
       "privacy.accountant"},
      {{"--set", "mode=release", "--set", "data.transforms=[standardize]"}, "standardize"},
      {{"--set", "mode=release", "--set", "seed=1"}, "release"},
  };
  for (const Refused& refused : calls) {
    for (const char* command : {"plan", "run"}) {
      const Outcome outcome = cli.on_manifest(command, refused.set);
      INFO(outcome.err);
      CHECK(outcome.exit_code == 3);
      CHECK(outcome.out == "");
      CHECK_THAT(outcome.err, ContainsSubstring(refused.expected));
      // Each line names one place: the cause.
      const std::string first = outcome.err.substr(0, outcome.err.find('\n'));
      CHECK(first.find(": error: ") != std::string::npos);
      CHECK(first.find(": error: ") == first.rfind(": error: "));
    }
  }
  CHECK_FALSE(std::filesystem::exists(cli.out("runs")));
}
