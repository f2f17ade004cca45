#include <cmath>
#include <fstream>

#include "cli.hpp"

namespace {

/// Squared loss, and a clip norm so large that nothing is clipped, with small noise: the influence
/// is known exactly.
constexpr const char* kQuadratic = R"(privgrad: 1
name: quadratic
data: {kind: synthetic, target: linear, rows: 40, test_rows: 0, dimensions: 3}
model: {kind: linear, loss: squared}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: uniform, clip_norm: 1000, learning_rate: 0.2}
privacy: {target_epsilon: 1000, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 12
)";

Json estimate(const Cli& cli, Words more) {
  Words words{"influence", "m.yaml", "--quiet", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = cli(words);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out);
}

}  // namespace

// The study fixes 8 seeds, and each estimate is compared once; Student's t with 7 degrees of
// freedom is beyond 6 with a probability of 5e-4. A large factor makes the noise of the examined
// step stand out from the noise of the other steps.
TEST_CASE("influence: retraining finds what the Hessian says exactly") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kQuadratic);
  const Json exact = estimate(cli, {"--method", "hessian", "--out", "h"});
  CHECK(exact.at("data") == "auxiliary");
  REQUIRE(exact.at("estimates").size() == 12);
  const Json measured =
      estimate(cli, {"--points", "2", "--repeats", "8", "--factors", "40", "--out", "r"});
  REQUIRE(measured.at("estimates").size() == 2);
  for (const Json& row : measured.at("estimates")) {
    const double expected =
        exact.at("estimates").at(row.at("step").get<std::size_t>()).at("influence");
    const double error = row.at("standard_error");
    INFO(row << " expected " << expected);
    CHECK(error > 0.0);
    CHECK(error < 0.8 * expected);
    CHECK(std::fabs(row.at("influence").get<double>() - expected) < 6.0 * error);
  }
  CHECK(exact.at("gamma") < 1.0);
}

TEST_CASE("influence: an estimate is continued, and its table is what schedules read") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kQuadratic);
  const Words call{"--points", "2", "--repeats", "8", "--factors", "40", "--jobs", "2"};
  Words out = call;
  out.insert(out.end(), {"--out", "r"});
  estimate(cli, out);
  const std::string table = read_file(cli.out("r") / "influence.csv");
  CHECK(table.starts_with("# measured on auxiliary data"));
  const auto kept =
      std::filesystem::last_write_time(cli.out("r") / "runs/as-is/seed-1/summary.json");
  std::filesystem::remove(cli.out("r") / "runs/as-is/seed-2/summary.json");
  estimate(cli, out);
  CHECK(read_file(cli.out("r") / "influence.csv") == table);
  CHECK(std::filesystem::last_write_time(cli.out("r") / "runs/as-is/seed-1/summary.json") == kept);

  const auto plan = [&](const std::string& kind, const std::string& folder) {
    return Json::parse(cli({"plan", "m.yaml", "--json", "--set",
                            "schedules.noise_multiplier={kind: dynamic, influence: {kind: " + kind +
                                ", file: " + folder + "/influence.csv}}"})
                           .out);
  };
  const Json fitted = plan("estimated", "r");
  CHECK(fitted.at("noise_multiplier").at(0) > fitted.at("noise_multiplier").at(11));
  CHECK_FALSE(fitted.at("unaccounted").dump().find("influence") != std::string::npos);

  // All steps, on the manifest's own rows: every plan that uses the result says so.
  estimate(cli, {"--method", "hessian", "--own-data", "--out", "own"});
  const Json own = plan("file", "own");
  CHECK_THAT(own.at("unaccounted").dump(), ContainsSubstring("influence of steps"));
  CHECK_THAT(own.at("influence").at("weighted_noise").get<double>(),
             WithinRel(own.at("influence").at("least").get<double>(), 1e-9));

  // The chart of the page shows the estimates and the curve.
  const std::string page = read_file(cli.out("r") / "report.html");
  CHECK_THAT(page, ContainsSubstring("Influence of the noise of each step"));
  CHECK_THAT(page, ContainsSubstring("id=\"figure-influence\""));
}

// Two pairs of runs: Student's t reaches 25 standard errors, which no influence here exceeds.
TEST_CASE("influence: an estimate within noise is said to be that, and makes no schedule") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kQuadratic);
  const Words call{"influence", "m.yaml",    "--quiet", "--points", "2", "--repeats",
                   "2",         "--factors", "1.1",     "--out",    "r"};
  cli(call);
  // A table from an earlier call is removed, whatever program wrote it.
  write_file(cli.out("r/influence.csv"), "0,1\n");
  const Outcome outcome = cli(call);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(line_count(outcome.err) == 1);
  CHECK(outcome.err.starts_with("privgrad: warning: these estimates are within noise: "));
  CHECK_THAT(outcome.err, ContainsSubstring("no schedule was written"));
  CHECK_THAT(outcome.out, ContainsSubstring("these estimates are within noise: "));
  CHECK_THAT(outcome.out, !ContainsSubstring("schedules.noise_multiplier"));
  CHECK_FALSE(std::filesystem::exists(cli.out("r/influence.csv")));
  CHECK_THAT(read_file(cli.out("r/report.html")), ContainsSubstring("within noise: "));
  const Json record = Json::parse(read_file(cli.out("r/influence.json")));
  CHECK_THAT(record.at("within_noise").get<std::string>(), ContainsSubstring("within noise: "));
  CHECK(record.at("gamma").is_null());
  // Exact results have no noise.
  CHECK_FALSE(estimate(cli, {"--method", "hessian", "--out", "h"}).contains("within_noise"));
}

TEST_CASE("influence refuses what it cannot estimate, in one line") {
  const Cli cli;
  write_file(cli.dir() / "m.yaml", kQuadratic);
  const auto refused = [&](Words more, const char* why) {
    Words words{"influence", "m.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = cli(words);
    check_one_error_line(outcome, 2);
    CHECK_THAT(outcome.err, ContainsSubstring(why));
  };
  refused({"--method", "guess"}, "allowed are retraining and hessian");
  refused({"--factors", "1,2"}, "--factors is '1'");
  refused({"--factors", "2,2"}, "twice");
  refused({"--method", "hessian", "--points", "3"}, "belongs to --method retraining");
  refused({"--own-data", "--auxiliary", "{kind: synthetic}"}, "exclude each other");
  refused({"--auxiliary", "nonsense"}, "is not a data source");
  refused({"--set", "privacy.noise=off"}, "privacy.noise is off");
  refused({"--method", "hessian", "--set", "model.loss=null", "--set", "data.target=class"},
          "this loss is not the squared loss");
  refused({"--method", "hessian", "--set", "optimizer=adam"}, "this optimizer is adam");
}
