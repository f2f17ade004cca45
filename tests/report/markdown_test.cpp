#include "page.hpp"

// Studies as Markdown: tables, and charts that gnuplot draws. Two pairs make Student's t Cauchy's
// distribution (p = 1 - (2/pi) atan |t|), which the expected values come from.

namespace fs = std::filesystem;

namespace {

/// A finished study's files, as docs/studies.md describes them; only what a page of Markdown reads.
class WrittenStudy {
 public:
  WrittenStudy() { write(); }

  void write() const {
    fs::create_directories(cli.out("study"));
    Json study{{"study", 1}, {"name", "rates"}, {"axes", axes}, {"arms", Json::array()}};
    for (const Json& arm : results.at("arms"))
      study["arms"].push_back({{"name", arm.at("name")}, {"steps", 3000}});
    write_file(cli.out("study/study.json"), study.dump());
    write_file(cli.out("study/results.json"), results.dump());
  }

  static Json arm(const std::string& name, std::vector<double> values,
                  Json labels = Json::object()) {
    return {{"name", name},
            {"labels", std::move(labels)},
            {"steps", {11, 12}},
            {"metrics", {{"train_loss", {{"values", std::move(values)}}}}}};
  }

  Outcome report() const { return cli({"report", "study", "--markdown", "page.md"}); }
  std::string page() const { return read_file(cli.out("page.md")); }
  std::string picture() const { return read_file(cli.out("page/rates-train_loss.svg")); }

  Cli cli;
  Json axes = Json::array();
  Json results{{"name", "rates"},
               {"baseline", "base"},
               {"stains", Json::array()},
               {"seeds", {1, 2}},
               {"target_epsilon", 1.0},
               {"target_delta", 1e-5},
               {"adjacency", "zero_out"},
               {"metrics", {{{"name", "train_loss"}, {"better", "lower"}}}},
               {"arms", {arm("base", {1.0, 2.0}), arm("fast", {2.0, 4.0})}},
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
  // Differences 1 and 2: mean 1.5, t = 3, p = 0.204833, which two digits may not make 0.20.
  CHECK_THAT(study.page(), ContainsSubstring("| fast | 11 to 12 | 3 "));
  CHECK_THAT(study.page(), ContainsSubstring("| 1.5 [-4.85, 7.85] | 0.21 |"));
  CHECK_THAT(study.page(), ContainsSubstring("epsilon at most 1 at delta 1e-05, zero_out"));
  CHECK_THAT(study.page(), ContainsSubstring("![train loss](page/rates-train_loss.svg)"));
  CHECK_THAT(study.page(), ContainsSubstring("Choosing costs."));
  const std::string svg = study.picture();
  CHECK_THAT(svg, ContainsSubstring("<svg"));
  for (const char* name : {">base<", ">fast<", ">train loss<"})
    CHECK_THAT(svg, ContainsSubstring(name));
}

TEST_CASE("arms over numbers are drawn as curves, and compared at the same number") {
  WrittenStudy study;
  Json& arms = study.results["arms"];
  arms = Json::array();
  for (const int rows : {100, 200, 400}) {
    for (const char* kind : {"uniform", "dynamic"}) {
      const double shift = kind[0] == 'd' ? 0.5 : 0.0;
      arms.push_back(WrittenStudy::arm(kind + std::to_string(rows), {1.0 + shift, 2.0 + shift},
                                       {{"rows", std::to_string(rows)}, {"schedule", kind}}));
    }
  }
  study.results["baseline"] = "uniform100";
  study.write();
  REQUIRE(study.report().exit_code == 0);
  CHECK(count_of(study.page(), "| 0.5 [0.5, 0.5] |") == 3);
  CHECK_THAT(study.page(), ContainsSubstring("at the same numbers of each axis"));
  const std::string svg = study.picture();
  CHECK_THAT(svg, ContainsSubstring(">train loss by rows<"));
  CHECK(count_of(svg, ">uniform<") == 1);
  CHECK(count_of(svg, ">dynamic<") == 1);
}

TEST_CASE("keys that vary together name a curve once") {
  WrittenStudy study;
  Json& arms = study.results["arms"];
  arms = Json::array();
  study.axes = {{{"keys", {"rows"}}, {"labels", {"100", "200", "400"}}},
                {{"keys", {"optimizer", "aggregator"}}, {"labels", {"plain", "tree"}}}};
  for (const char* rows : {"100", "200", "400"}) {
    for (const char* method : {"plain", "tree"}) {
      arms.push_back(
          WrittenStudy::arm(std::string(rows) + "+" + method, {1.0, 2.0},
                            {{"rows", rows}, {"optimizer", method}, {"aggregator", method}}));
    }
  }
  study.results["baseline"] = "100+plain";
  study.write();
  REQUIRE(study.report().exit_code == 0);
  CHECK(count_of(study.picture(), ">plain<") == 1);
  CHECK(count_of(study.picture(), ">tree<") == 1);
}

TEST_CASE("numbers that vary together are one axis, named by the first of them") {
  WrittenStudy study;
  Json& arms = study.results["arms"];
  arms = Json::array();
  study.axes = {{{"keys", {"target", "rounds"}}, {"labels", {"1", "2", "3"}}},
                {{"keys", {"method"}}, {"labels", {"plain", "tree"}}}};
  for (const int number : {1, 2, 3}) {
    for (const char* method : {"plain", "tree"}) {
      const std::string target = std::to_string(number);
      arms.push_back(WrittenStudy::arm(
          target + "+" + method, {1.0, 2.0},
          {{"target", target}, {"rounds", std::to_string(100 * number)}, {"method", method}}));
    }
  }
  study.results["baseline"] = "1+plain";
  study.write();
  REQUIRE(study.report().exit_code == 0);
  CHECK_THAT(study.picture(), ContainsSubstring(">train loss by target<"));
  CHECK(count_of(study.picture(), ">plain<") == 1);
  CHECK(count_of(study.picture(), ">tree<") == 1);
}

TEST_CASE("names in a chart are text, whatever a plotting program would make of them") {
  WrittenStudy study;
  const std::string stolen = study.cli.out("stolen").string();
  for (const std::string& name : {"`touch " + stolen + "`", "'; system('touch " + stolen + "') #",
                                  "x'\nset output '" + stolen + "'\n!touch " + stolen,
                                  std::string("a_b^{c} <&> @d"), "END\n!touch " + stolen + "\n"}) {
    CAPTURE(name);
    study.results["arms"][1]["name"] = name;
    study.write();
    const Outcome outcome = study.report();
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK_FALSE(fs::exists(stolen));
    CHECK_THAT(study.picture(), ContainsSubstring("<svg"));
  }
  study.results["arms"][1]["name"] = "a_b^{c} <&> @d";
  study.write();
  REQUIRE(study.report().exit_code == 0);
  CHECK_THAT(study.picture(), ContainsSubstring("a_b^{c} &lt;&amp;> @d"));
}

TEST_CASE("without gnuplot, the error names it, and nothing is written") {
  const WrittenStudy study;
  Call what = study.cli.prepare({"report", "study", "--markdown", "page.md"});
  what.environment = {{"PATH", "/nonexistent"}};
  const Outcome outcome = call(what);
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("gnuplot"));
  CHECK_FALSE(fs::exists(study.cli.out("page.md")));
  CHECK_FALSE(fs::exists(study.cli.out("page")));
}

TEST_CASE("steps that are no numbers are refused in one line") {
  WrittenStudy study;
  study.results["arms"][1]["steps"] = {12, "many"};
  study.write();
  const Outcome outcome = study.report();
  check_one_error_line(outcome, 4);
  CHECK_THAT(outcome.err, ContainsSubstring("results.json: 'steps' holds what is no number"));
}

TEST_CASE("half a study is refused before anything is written") {
  WrittenStudy study;
  SECTION("a value is missing") {
    study.results["arms"][1]["metrics"]["train_loss"]["values"][1] = nullptr;
    study.write();
  }
  SECTION("no results yet") { fs::remove(study.cli.out("study/results.json")); }
  SECTION("results that are no JSON") {
    write_file(study.cli.out("study/results.json"), "{\"arms\": [");
  }
  const Outcome outcome = study.report();
  INFO(outcome.err);
  CHECK(outcome.exit_code != 0);
  CHECK(line_count(outcome.err) == 1);
  CHECK_FALSE(fs::exists(study.cli.out("page.md")));
}
