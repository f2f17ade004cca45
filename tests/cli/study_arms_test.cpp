// Arms that train the same model, arms without privacy, and training sets that seeds draw.
#include "study_workplace.hpp"

namespace {

Json results_of(const Workplace& work, const std::string& name) {
  return Json::parse(work.json(name));
}

const Json& arm(const Json& results, const std::string& name) {
  for (const Json& one : results.at("arms"))
    if (one.at("name") == name) return one;
  FAIL("no arm " << name);
  return results;
}

std::string study(const std::string& more) {
  return "study: 1\nname: tiny\nbase: small.yaml\nseeds: 3\nmetrics: [test_loss]\n" + more;
}

}  // namespace

TEST_CASE("arms that train the same model are run once, and are one test", "[ablate]") {
  const Workplace work;
  // A second accountant, which only reports, needs no training of its own.
  write_file(work.out("s.yaml"),
             study("arms:\n  plain: {}\n  also: {privacy.also: [{kind: pld}]}\n"
                   "  fast: {schedules.learning_rate: 1.0}\n"
                   "  fast-also: {schedules.learning_rate: 1.0, privacy.also: [{kind: pld}]}\n"));
  const Outcome plan = work.ablate({"--dry-run"});
  REQUIRE(plan.exit_code == 0);
  CHECK_THAT(plan.out,
             ContainsSubstring("2 arms (4 counting arms that share their runs) x 3 seeds"));
  CHECK_THAT(plan.out, ContainsSubstring("the runs of plain"));
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  CHECK(work.finished("s") == 6);
  CHECK_FALSE(fs::exists(work.out("s/runs/also")));

  const Json results = results_of(work, "s");
  CHECK(arm(results, "also").at("same_as") == "plain");
  CHECK(arm(results, "also").at("metrics") == arm(results, "plain").at("metrics"));
  // There is only one test, so p is not corrected; the sentence names both arms.
  const Json& fast = arm(results, "fast").at("versus_baseline").at("test_loss");
  CHECK(fast.at("p_holm") == fast.at("p"));
  CHECK(arm(results, "fast-also").at("versus_baseline").at("test_loss").at("p_holm") ==
        fast.at("p_holm"));
  REQUIRE(results.at("words").size() == 1);
  CHECK_THAT(results.at("words").at(0).get<std::string>(),
             ContainsSubstring("fast, fast-also: test_loss"));
  CHECK(results.at("choice").at("candidates") == 2);

  CHECK(work({"verify", "s"}).exit_code == 0);
  // A false claim that two arms are the same is detected.
  Json study_json = Json::parse(read_file(work.out("s/study.json")));
  for (Json& one : study_json.at("arms"))
    if (one.at("name") == "fast-also") one["same_as"] = "plain";
  write_file(work.out("s/study.json"), study_json.dump(2) + "\n");
  const Outcome forged = work({"verify", "s"});
  CHECK(forged.exit_code == 3);
  CHECK_THAT(forged.out + forged.err, ContainsSubstring("which trains another model"));
}

TEST_CASE("an arm without noise is a reference: dashed, and compared with nothing", "[ablate]") {
  const Workplace work;
  write_file(work.out("s.yaml"), study("levels: {privacy.target_epsilon: [0.5, 1, 2]}\n"
                                       "arms:\n  base: {}\n  fast: {schedules.learning_rate: 1.0}\n"
                                       "  non-private: {privacy.noise: off}\n"));
  const Outcome made = work.ablate({"--out", "s", "--quiet"});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  const Json results = results_of(work, "s");
  CHECK(work.finished("s") == 3 * (2 * 3 + 1));  // the same at each level
  const Json& reference = arm(results, "2+non-private");
  CHECK(reference.at("reference") == true);
  CHECK(reference.at("same_as") == "0.5+non-private");
  CHECK(reference.at("versus_baseline").empty());
  CHECK(results.at("stains").empty());
  CHECK_THAT(results.at("remarks").dump(), ContainsSubstring("with which nothing is compared"));
  CHECK(results.at("words").size() == 3);
  CHECK(work({"verify", "s"}).exit_code == 0);

  const std::string page = read_file(work.out("s/report.html"));
  CHECK_THAT(page, ContainsSubstring("Mean test loss against epsilon"));
  CHECK_THAT(page, ContainsSubstring("(without privacy)"));

  write_file(work.out("s.yaml"), study("arms:\n  off: {privacy.noise: off}\n  base: {}\n"));
  const Outcome refused = work.ablate({"--dry-run"});
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err, ContainsSubstring("is off in the arm off, which is the baseline"));
}

TEST_CASE("each seed can draw a training set of its own", "[ablate]") {
  const Workplace work;
  write_file(work.out("s.yaml"), study("set: {data.sample: {rows: 40}}\n"
                                       "arms: {base: {}, fast: {schedules.learning_rate: 1.0}}\n"));
  const Outcome made = work.ablate({"--out", "s", "--quiet"});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  CHECK_THAT(results_of(work, "s").at("remarks").dump(),
             ContainsSubstring("Each seed draws a training set of its own"));
  std::set<std::string> rows;
  for (const char* name : {"base", "fast"}) {
    for (const char* seed : {"1", "2", "3"}) {
      const Json summary = Json::parse(
          read_file(work.out("s/runs/" + std::string(name) + "/seed-" + seed + "/summary.json")));
      rows.insert(summary.at("statement").at("data_commitment").get<std::string>());
    }
  }
  CHECK(rows.size() == 3);  // by the seed, and the same for both arms
  CHECK(work({"verify", "s"}).exit_code == 0);
}

TEST_CASE("a table for a paper has the best in bold where it can be told", "[ablate]") {
  const Workplace work;
  write_file(work.out("s.yaml"), study("arms:\n  slow_1: {schedules.learning_rate: 0.001}\n"
                                       "  fast: {schedules.learning_rate: 0.5}\n"));
  REQUIRE(work.ablate({"--out", "s", "--quiet"}).exit_code == 0);
  const Json results = results_of(work, "s");
  const Outcome latex = work({"report", "s", "--table", "latex"});
  REQUIRE(latex.exit_code == 0);
  for (const char* part : {"\\begin{tabular}{lr}", "\\toprule", "arm & test loss", "slow\\_1 & ",
                           "3 seeds", "Every arm with noise has epsilon at most 1 at delta 1e-05"})
    CHECK_THAT(latex.out, ContainsSubstring(part));
  const bool differs = arm(results, "fast").at("versus_baseline").at("test_loss").at("p") < 0.05;
  CHECK((latex.out.find("\\textbf{") != std::string::npos) == differs);
  const Outcome csv = work({"report", "s", "--table", "csv"});
  CHECK_THAT(csv.out, ContainsSubstring("\"tiny\",\"fast\",\"test loss\","));
  CHECK_THAT(work({"report", "s", "--table", "markdown"}).out, ContainsSubstring("| slow\\_1 |"));
  check_one_error_line(work({"report", "s", "--table", "word"}), 2);
  check_one_error_line(work({"report", "s", "--table", "csv", "--out", "x"}), 2);
}
