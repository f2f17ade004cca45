#include "page.hpp"

// Studies as Markdown: tables, and charts as SVG.

namespace fs = std::filesystem;

namespace {

/// The files of a finished study, as docs/studies.md describes them; only the files needed for a
/// page of Markdown.
class WrittenStudy {
 public:
  WrittenStudy() { write(); }

  void write() const {
    fs::create_directories(cli.out("study"));
    write_file(cli.out("study/study.json"), "{}");
    write_file(cli.out("study/results.json"), results.dump());
  }

  /// \param difference  from the baseline, with the interval +-1; null: the arm is the baseline.
  static Json arm(const std::string& name, double mean, Json difference = nullptr) {
    Json versus = Json::object();
    if (!difference.is_null()) {
      const double d = difference.get<double>();
      versus["train_loss"] = {
          {"difference", d}, {"ci95", {d - 1.0, d + 1.0}}, {"p_holm", 0.204833}};
    }
    return {{"name", name},
            {"steps", {11, 12}},
            {"runs", 2},
            {"statuses", {{"completed", 2}}},
            {"metrics", {{"train_loss", {{"mean", mean}, {"ci95", {mean - 2.0, mean + 2.0}}}}}},
            {"versus_baseline", std::move(versus)}};
  }

  /// The same for a level.
  static Json arm_at(const std::string& level, const std::string& variant, double mean,
                     Json difference = nullptr) {
    Json made = arm(level + "+" + variant, mean, std::move(difference));
    made["variant"] = variant;
    made["level"] = level;
    return made;
  }

  Outcome report() const { return cli({"report", "study", "--markdown", "page.md"}); }
  std::string page() const { return read_file(cli.out("page.md")); }
  std::string picture() const { return read_file(cli.out("page/rates-train_loss.svg")); }

  Cli cli;
  Json results{{"name", "rates"},
               {"baseline", "base"},
               {"stains", Json::array()},
               {"seeds", {1, 2}},
               {"target_epsilon", 1.0},
               {"target_delta", 1e-5},
               {"adjacency", "zero_out"},
               {"metrics", {{{"name", "train_loss"}, {"better", "lower"}}}},
               {"arms", {arm("base", 1.5), arm("fast", 3.0, 1.5)}},
               {"choice", {{"words", {"Choosing costs."}}}}};
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a study in Markdown: a table with paired differences, and a chart") {
  const WrittenStudy study;
  const Outcome outcome = study.report();
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  // The p-value, 0.204833, is never rounded down.
  CHECK_THAT(study.page(), ContainsSubstring("| base | 11 to 12 | 1.5 [-0.5, 3.5] | - | - |"));
  CHECK_THAT(study.page(),
             ContainsSubstring("| fast | 11 to 12 | 3 [1, 5] | 1.5 [0.5, 2.5] | 0.21 |"));
  CHECK_THAT(study.page(), ContainsSubstring("epsilon at most 1 at delta 1e-05, zero_out"));
  CHECK_THAT(study.page(), ContainsSubstring("Compared with base.\n"));
  CHECK_THAT(study.page(), ContainsSubstring("](page/rates-train_loss.svg)"));
  CHECK_THAT(study.page(), ContainsSubstring("Choosing costs."));
  const std::string svg = study.picture();
  CHECK_THAT(svg, ContainsSubstring("<svg"));
  for (const char* name : {">fast<", ">difference in train loss to base<"})
    CHECK_THAT(svg, ContainsSubstring(name));
  CHECK_THAT(svg, !ContainsSubstring(">base<"));
}

TEST_CASE("over levels that are numbers, the differences within each are drawn as curves") {
  WrittenStudy study;
  study.results["levels"] = {{"keys", {"data.limit"}}, {"labels", {"100", "200", "400"}}};
  study.results["target_epsilon"] = nullptr;
  Json& arms = study.results["arms"] = Json::array();
  for (const char* level : {"100", "200", "400"}) {
    arms.push_back(WrittenStudy::arm_at(level, "base", 1.0));
    arms.push_back(WrittenStudy::arm_at(level, "fast", 1.5, 0.5));
    arms.push_back(WrittenStudy::arm_at(level, "slow", 0.5, -0.5));
  }
  SECTION("titles are what a reader would say") {
    study.results["titles"] = {{"data.limit", "training examples"}};
    study.write();
    REQUIRE(study.report().exit_code == 0);
    CHECK_THAT(study.page(),
               ContainsSubstring("Compared with base, at the same training examples."));
    CHECK_THAT(study.page(),
               ContainsSubstring("arms at the same training examples have the same guarantee"));
    CHECK(count_of(study.page(), "| 0.5 [-0.5, 1.5] | 0.21 |") == 3);
    CHECK_THAT(study.picture(),
               ContainsSubstring(">difference in train loss to base by training examples<"));
    for (const char* name : {">fast<", ">slow<", ">no difference<"})
      CHECK(count_of(study.picture(), name) == 1);
  }
  SECTION("without a title, the last word of the key") {
    study.write();
    REQUIRE(study.report().exit_code == 0);
    CHECK_THAT(study.page(), ContainsSubstring("Compared with base, at the same limit."));
  }
  SECTION("levels that are words are drawn one below the other") {
    study.results["levels"]["labels"] = {"few", "200", "400"};
    study.write();
    REQUIRE(study.report().exit_code == 0);
    CHECK(count_of(study.picture(), ">100+fast<") == 1);
  }
}

TEST_CASE("runs that did not complete are counted below the table, without a mean") {
  WrittenStudy study;
  Json& fast = study.results["arms"][1];
  fast["statuses"] = {{"completed", 1}, {"diverged", 1}};
  fast["metrics"]["train_loss"] = {{"mean", nullptr}, {"ci95", nullptr}};
  fast["versus_baseline"]["train_loss"] = {
      {"difference", nullptr}, {"ci95", nullptr}, {"p_holm", nullptr}};
  study.write();
  REQUIRE(study.report().exit_code == 0);
  CHECK_THAT(study.page(), ContainsSubstring("| fast | 11 to 12 | - | - | - |"));
  CHECK_THAT(study.page(), ContainsSubstring("fast: 1 of 2 runs ended as diverged."));
}

TEST_CASE("copies of results, NAME.json, make the same page as the studies they are of") {
  const WrittenStudy study;
  REQUIRE(study.report().exit_code == 0);
  fs::create_directories(study.cli.out("copies"));
  fs::copy(study.cli.out("study/results.json"), study.cli.out("copies/rates.json"));
  REQUIRE(study.cli({"report", "copies", "--markdown", "page2.md"}).exit_code == 0);
  std::string page = study.page();
  for (std::size_t at; (at = page.find("](page/")) != page.npos;) page.replace(at, 7, "](page2/");
  CHECK(read_file(study.cli.out("page2.md")) == page);
}

TEST_CASE("names in a chart are text, whatever they hold") {
  WrittenStudy study;
  study.results["arms"][1]["name"] = "a_b^{c} <&> @d\"'\n</svg>";
  study.write();
  REQUIRE(study.report().exit_code == 0);
  CHECK_THAT(study.picture(), ContainsSubstring("a_b^{c} &lt;&amp;&gt; @d&quot;&#39;"));
  CHECK(count_of(study.picture(), "</svg>") == 1);
}

TEST_CASE("steps that are not numbers are refused in one line") {
  WrittenStudy study;
  study.results["arms"][1]["steps"] = {12, "many"};
  study.write();
  const Outcome outcome = study.report();
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err,
             ContainsSubstring("results.json: 'steps' holds something that is not a number"));
}

TEST_CASE("half a study is refused before anything is written") {
  WrittenStudy study;
  SECTION("a metric is missing") {
    study.results["arms"][1]["metrics"] = Json::object();
    study.write();
  }
  SECTION("no results yet") { fs::remove(study.cli.out("study/results.json")); }
  SECTION("results that are not JSON") {
    write_file(study.cli.out("study/results.json"), "{\"arms\": [");
  }
  const Outcome outcome = study.report();
  INFO(outcome.err);
  CHECK(outcome.exit_code != 0);
  CHECK(line_count(outcome.err) == 1);
  CHECK_FALSE(fs::exists(study.cli.out("page.md")));
}
