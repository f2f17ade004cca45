#include "page.hpp"

namespace fs = std::filesystem;

namespace {

/// Starts a run that would take half a minute, and kills it after its first measurement.
void cut_off_a_run(const Cli& cli) {
  Process process(
      cli.prepare({"run", "small.yaml", "--set", "steps=60000", "--set",
                   "model={kind: mlp, hidden: [512]}", "--set", "evaluate_every=10", "--set",
                   "schedules.noise_multiplier=1e6", "--out", "run", "--quiet"}));
  REQUIRE(Process::wait_for([&] {
    std::error_code absent;
    return fs::file_size(cli.out("run/metrics.jsonl"), absent) > 0 && !absent;
  }));
  process.send(SIGKILL);
  process.finish();
}

}  // namespace

TEST_CASE("a run ends with a page that shows what it was and what it cost") {
  const Cli cli;
  const std::string page = page_of_run(cli);
  const std::string seen = visible(page);
  CHECK(page.starts_with("<!doctype html>"));
  CHECK_THAT(page, ContainsSubstring("<title>small - PrivGrad run</title>"));
  for (const char* text :
       {"<h1>small</h1>", "Completed all 12 steps.", "upper bound by zcdp", "per example, zero_out",
        "target_epsilon: 1", "exact values of private rows", "training metrics", "full_batch",
        "privgrad.linear", "Clip norm</dt><dd>1 in every step"}) {
    CHECK_THAT(seen, ContainsSubstring(text));
  }
  const std::string lock = read_file(cli.out("run/privgrad.lock"));
  const std::size_t hash = lock.find("sha256 = \"") + 10;
  CHECK_THAT(seen, ContainsSubstring(lock.substr(hash, 64)));
}

TEST_CASE("a page asks for nothing outside itself") {
  const Cli cli;
  const std::string page = page_of_run(cli);
  CHECK_THAT(page, ContainsSubstring("http-equiv=\"Content-Security-Policy\" content=\"default-src "
                                     "'none'; style-src 'unsafe-inline'\""));
  CHECK(page.find("<script") == std::string::npos);
  CHECK(visible(page).find("src=") == std::string::npos);
  // The page contains everything that it links to.
  const std::string reference = "href=\"", data = "data:text/csv";
  for (std::size_t at = 0; (at = page.find(reference, at)) != page.npos; ++at)
    CHECK(page.compare(at + reference.size(), data.size(), data) == 0);
  CHECK(page.find("<link") == std::string::npos);
  CHECK(page.find("@import") == std::string::npos);
}

TEST_CASE("the page shows what the final model is worth on the test rows") {
  const Cli cli;
  const std::string page = page_of_run(cli, {"--set", "seed=2"});
  const Json evaluation = Json::parse(read_file(cli.out("run/summary.json"))).at("test_evaluation");
  const std::string seen = visible(page);
  CHECK_THAT(seen, ContainsSubstring("The final model on the test rows"));
  CHECK_THAT(seen, ContainsSubstring("begun 2023-11-14T22:13:20Z"));  // SOURCE_DATE_EPOCH of tests
  CHECK_THAT(seen, ContainsSubstring("These test rows are private"));
  for (std::size_t k = 0; k < 2; ++k) {
    std::string row = "<th scope=\"row\">" + std::to_string(k) + "</th>";
    for (const Json& count : evaluation.at("confusion")[k])
      row += "<td class=\"number\">" + count.dump() + "</td>";
    CHECK_THAT(seen, ContainsSubstring(row));
  }
  const Json roc = chart(page, "roc");
  REQUIRE(roc.is_object());
  CHECK_THAT(seen, ContainsSubstring("ROC curve"));
  // The curve goes from no row predicted as the class to all rows, and is compared with guessing.
  REQUIRE(roc.at("series").size() == 2);
  CHECK(roc["series"][0].at("points").front() == Json{0.0, 0.0});
  CHECK(roc["series"][0].at("points").back() == Json{1.0, 1.0});
  CHECK(roc["series"][1].at("points") == Json{{0.0, 0.0}, {1.0, 1.0}});
}

TEST_CASE("in release mode the page shows no confusion of test rows that are private") {
  const Cli cli;
  const Words release{"--set", "mode=release", "--set", "data.size=60"};
  const std::string page = page_of_run(cli, release);
  CHECK(visible(page).find("The final model on the test rows") == std::string::npos);
  CHECK(chart(page, "roc").is_null());
  CHECK(Json::parse(read_file(cli.out("run/summary.json"))).at("test_evaluation").is_null());
}

TEST_CASE("the charts hold what was measured, charged and planned") {
  const Cli cli;
  const std::string page = page_of_run(
      cli, {"--set", "schedules.learning_rate={kind: exponential, initial: 0.5, rate: 0.9}"});
  std::istringstream lines(read_file(cli.out("run/metrics.jsonl")));
  const Json loss = chart(page, "loss");
  const Json accuracy = chart(page, "accuracy");
  std::size_t i = 0;
  for (std::string line; std::getline(lines, line); ++i) {
    const Json measured = Json::parse(line);
    CHECK(loss.at("series").at(0).at("points").at(i) ==
          Json{measured.at("step"), measured.at("train_loss")});
    CHECK(accuracy.at("series").at(1).at("points").at(i) ==
          Json{measured.at("step"), measured.at("test_accuracy")});
  }
  CHECK(i == 4);

  const Json spent = chart(page, "epsilon");
  const double epsilon =
      Json::parse(read_file(cli.out("run/summary.json"))).at("epsilon").get<double>();
  CHECK(spent.at("series").at(0).at("points").front() == Json{0.0, 0.0});
  CHECK(spent.at("series").at(0).at("points").back() == Json{12.0, epsilon});
  CHECK(spent.at("levels") == Json::array({Json::array({"budget", 1.0})}));

  const Json rate = chart(page, "slot-1");  // by name: learning_rate before noise_multiplier
  CHECK_THAT(visible(page), ContainsSubstring("<h3>Learning rate</h3>"));
  const Json points = rate.at("series").at(0).at("points");
  REQUIRE(points.size() == 12);
  for (std::size_t step = 0; step < 12; ++step) {
    CHECK(points.at(step).at(0) == step + 1);
    CHECK_THAT(points.at(step).at(1).get<double>(),
               WithinRel(0.5 * std::exp(-0.9 * static_cast<double>(step)), 1e-12));
  }
}

TEST_CASE("a federated run says how many clients came early and were refused") {
  const Cli cli;
  const Outcome run = cli.on_manifest(
      "run", {"--out", "run", "--set",
              "federated={clients: 3, rounds: 4, local_iterations: 1, aggregation: dp_fed_avg, "
              "client_clip_norm: 1, min_separation: 3}",
              "--set", "aggregator={kind: matrix, bands: 2}"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, ContainsSubstring(
                          "4 of 4, 3 clients, 0 drop-outs, 9 refused because they came too early"));
  CHECK_THAT(visible(page_of(cli, "run")),
             ContainsSubstring("drop-outs</dt><dd>0 of 3; 9 more came early and were refused"));
}

TEST_CASE("a federated run's page has its rounds and its clients") {
  const Cli cli;
  const std::string page =
      page_of_run(cli, {"--set",
                        "federated={clients: 3, rounds: 4, partition: shards, local_iterations: "
                        "{kind: list, values: [1, 3, 2, 6]}}",
                        "--set", "evaluate_every=1"});
  const std::string seen = visible(page);
  for (const char* text : {"Clients and rounds</h2>", "The setting is federated",
                           "drop-outs</dt><dd>0 of 12", "label 1"}) {
    CHECK_THAT(seen, ContainsSubstring(text));
  }
  CHECK(chart(page, "local-iterations").at("series").at(0).at("points") ==
        Json::array({{1.0, 1.0}, {2.0, 3.0}, {3.0, 2.0}, {4.0, 6.0}}));
  const Json clients = Json::parse(read_file(cli.out("run/clients.json"))).at("clients");
  REQUIRE(clients.size() == 3);
  const Json spent = chart(page, "epsilon").at("series").at(0).at("points");
  CHECK(spent.back() == Json{12.0, clients.at(0).at("charged_epsilon")});
  const Json communication = chart(page, "communication");
  const double down =
      Json::parse(read_file(cli.out("run/summary.json"))).at("federated").at("bytes_down");
  CHECK_THAT(communication.at("series").at(0).at("points").back().at(1).get<double>(),
             WithinRel(down / 1e6, 1e-12));
}

TEST_CASE("a page never shows less epsilon than was spent") {
  const Cli cli;
  for (const char* target : {"0.7123456789", "1.00004", "2.99996", "0.012345678"}) {
    const std::string run = std::string("run-") + target;
    const std::string page =
        page_of_run(cli, {"--set", std::string("privacy.target_epsilon=") + target}, run);
    const double epsilon =
        Json::parse(read_file(cli.out(run) / "summary.json")).at("epsilon").get<double>();
    const std::string before = "<dt>epsilon</dt><dd>\u2264 ";
    const std::size_t at = page.find(before);
    REQUIRE(at != page.npos);
    const double shown = std::stod(page.substr(at + before.size(), 12));
    INFO(epsilon << " shown as " << shown);
    CHECK(shown >= epsilon);
    CHECK(shown < epsilon * 1.0003);  // five digits, rounded up
    const double said = [&] {
      const std::string prose = statement_of(cli, run).at("short");
      return std::stod(prose.substr(prose.find("epsilon ") + 8));
    }();
    CHECK(said >= epsilon);
    CHECK(said < epsilon * 1.0003);
  }
}

TEST_CASE("other accountants stand beside the one that guards, with their kind of bound") {
  const Cli cli;
  const std::string page = page_of_run(cli, {"--set", "privacy.also=[{kind: pld}]"});
  const std::string seen = visible(page);
  CHECK_THAT(seen, ContainsSubstring("zcdp (guards the budget)"));
  CHECK_THAT(seen, ContainsSubstring("<th scope=\"row\">pld</th><td class=\"number\">12, planned"));
  // The certified interval: the lower end is rounded down.
  const Json also = statement_of(cli).at("also").at(0);
  CHECK(also.at("bound") == "upper");
  CHECK(also.at("lower") <= also.at("epsilon"));
}

TEST_CASE("the clipped share is shown where it was released, and nowhere else") {
  const Cli cli;
  CHECK(chart(page_of_run(cli), "clipped").is_null());
  const std::string page =
      page_of_run(cli, {"--set", "clipping={kind: adaptive}", "--set", "evaluate_every=1"}, "two");
  CHECK(chart(page, "clipped").at("series").at(0).at("points").size() == 12);
  CHECK(chart(page, "slot-adapted").at("series").at(0).at("points").size() == 12);
}

TEST_CASE("in release mode the page of a run shows nothing of private rows") {
  const Cli cli;
  const std::string page = page_of_run(cli, {"--set", "mode=release"});
  CHECK(chart(page, "loss").is_null());
  CHECK(chart(page, "accuracy").is_null());
  const std::string seen = visible(page);
  CHECK_THAT(seen, ContainsSubstring("Nothing that PrivGrad read: each use that it made of private "
                                     "rows was charged."));
  CHECK_THAT(seen, ContainsSubstring("No loss and no accuracy"));
  CHECK(seen.find("The steps took") == std::string::npos);
  CHECK(seen.find("class=\"warning\"") == std::string::npos);
}

TEST_CASE("a run that ended early says so first") {
  const Cli cli;
  const std::string exhausted = page_of_run(cli, {"--set", "schedules.noise_multiplier=10"}, "one");
  CHECK_THAT(visible(exhausted),
             ContainsSubstring("role=\"note\">The privacy budget was spent after step "));
  const std::string diverged = page_of_run(
      cli, {"--set", "schedules.learning_rate=1e38", "--set", "schedules.clip_norm=1e10"}, "two");
  CHECK_THAT(visible(diverged), ContainsSubstring("role=\"note\">Diverged after step "));
  const std::string noiseless = page_of_run(cli, {"--set", "privacy.noise=off"}, "three");
  CHECK_THAT(visible(noiseless), ContainsSubstring("role=\"note\">This run is not differentially "
                                                   "private: no noise was added"));
  CHECK_THAT(visible(noiseless), ContainsSubstring("<dt>epsilon</dt><dd>infinite</dd>"));
}

TEST_CASE("a run that was killed gets an honest page") {
  const Cli cli;
  cut_off_a_run(cli);
  CHECK_FALSE(fs::exists(cli.out("run/report.html")));
  const Outcome outcome = cli({"report", "run"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out == "run/report.html\n");
  const std::string seen = visible(page_of(cli, "run"));
  CHECK_THAT(seen, ContainsSubstring("This run was interrupted, or it is still running"));
  CHECK_THAT(seen, ContainsSubstring("of the charges in the ledger"));
  CHECK_THAT(seen, ContainsSubstring("This run has not come to its end"));
  CHECK(seen.find("Completed") == std::string::npos);
}

TEST_CASE("half a line at the end of a file that grows is left out, and said") {
  const Cli cli;
  page_of_run(cli);
  for (const char* file : {"run/metrics.jsonl", "run/ledger.jsonl"}) {
    const std::string whole = read_file(cli.out(file));
    write_file(cli.out(file), whole.substr(0, whole.size() - 20));
  }
  fs::remove(cli.out("run/summary.json"));
  REQUIRE(cli({"report", "run"}).exit_code == 0);
  const std::string page = page_of(cli, "run");
  CHECK_THAT(visible(page), ContainsSubstring("The last line of metrics.jsonl is truncated"));
  CHECK_THAT(visible(page), ContainsSubstring("The last line of ledger.jsonl is truncated"));
  CHECK(chart(page, "loss").at("series").at(0).at("points").size() == 3);
}

TEST_CASE("a page that cannot be written is a warning, and the run is done all the same") {
  const Cli cli;
  Call run = cli.prepare({"run", "small.yaml", "--out", "run", "--quiet", "--json"});
  run.file_size = 30'000;  // enough for the record, not for a page with its charts
  const Outcome outcome = call(run);
  CHECK(outcome.exit_code == 0);
  CHECK(Json::parse(outcome.out).at("status") == "completed");
  CHECK(outcome.err.starts_with("privgrad: warning: the run has no report.html: "));
  CHECK(line_count(outcome.err) == 1);
  CHECK(fs::exists(cli.out("run/summary.json")));
  CHECK_FALSE(fs::exists(cli.out("run/report.html")));
}

TEST_CASE("report --out writes the page elsewhere") {
  const Cli cli;
  const std::string page = page_of_run(cli);
  const Outcome outcome = cli({"report", "run", "--out", "elsewhere.html"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "elsewhere.html\n");
  CHECK(read_file(cli.out("elsewhere.html")) == page);
}

TEST_CASE("long series are drawn from their extremes, and the page says so") {
  const Cli cli;
  page_of_run(cli);
  std::string lines;
  for (int step = 1; step <= 10'000; ++step) {
    // One peak, which every picture must show.
    lines += Json{{"step", step}, {"test_loss", step == 5'555 ? 9.0 : 1.0}}.dump() + "\n";
  }
  write_file(cli.out("run/metrics.jsonl"), lines);
  REQUIRE(cli({"report", "run"}).exit_code == 0);
  const std::string page = page_of(cli, "run");
  const Json points = chart(page, "loss").at("series").at(0).at("points");
  CHECK(points.size() <= 2'000);
  CHECK(points.front() == Json{1.0, 1.0});
  CHECK(points.back() == Json{10'000.0, 1.0});
  CHECK(std::count(points.begin(), points.end(), Json{5'555.0, 9.0}) == 1);
  CHECK_THAT(visible(page), ContainsSubstring("Drawn from the smallest and largest values"));
}

TEST_CASE("with utility, the prediction is drawn over the measured excess risk") {
  const Cli cli;
  const std::string page = page_of_run(
      cli, {"--set", "utility={kappa: 10, alpha: 0.001, optimum: 0.1}", "--set", "steps=auto"});
  const Json excess = chart(page, "excess");
  const Json& bound = excess.at("series").at(0).at("points");
  const Json& seen = excess.at("series").at(1).at("points");
  // 21 steps of uniform noise are optimal for these constants, with a bound of 0.2964 (erratum of
  // Eq. 24).
  REQUIRE(bound.size() == 22);
  CHECK(bound.at(0) == Json{0.0, 1.0});
  CHECK(bound.at(21).at(0) == 21.0);
  CHECK_THAT(bound.at(21).at(1).get<double>(), WithinAbs(0.2964, 5e-5));
  // Measured: (loss - optimum) relative to its value before the first step.
  std::istringstream lines(read_file(cli.out("run/metrics.jsonl")));
  std::vector<Json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
  REQUIRE(seen.size() == all.size());
  CHECK(all.front().at("step") == 0);
  CHECK(all.front().at("epsilon") == 0.0);
  CHECK(seen.at(0) == Json{0.0, 1.0});
  const double expected = (all.back().at("train_loss").get<double>() - 0.1) /
                          (all.front().at("train_loss").get<double>() - 0.1);
  CHECK_THAT(seen.back().at(1).get<double>(), WithinRel(expected, 1e-9));
}

TEST_CASE("without utility, or without what was measured, nothing is predicted") {
  const Cli cli;
  CHECK(chart(page_of_run(cli, {}, "without"), "excess").is_null());
  const std::string release = page_of_run(
      cli, {"--set", "utility={kappa: 10, alpha: 0.001}", "--set", "mode=release"}, "release");
  CHECK(chart(release, "excess").at("series").size() == 1);
  CHECK(chart(page_of_run(
                  cli, {"--set", "utility={kappa: 10, alpha: 0.001}", "--set", "privacy.noise=off"},
                  "off"),
              "excess")
            .is_null());
}
