#include <iomanip>
#include <set>
#include <sstream>

#include "page.hpp"

namespace fs = std::filesystem;

namespace {

/// A study of two arms and two seeds, in a directory as described in docs/studies.md, with real
/// runs.
class Study {
 public:
  Study() {
    for (const char* arm : {"base", "fast"}) {
      for (const char* seed : {"1", "2"}) {
        const std::string run = std::string("study/runs/") + arm + "/seed-" + seed;
        REQUIRE(cli.on_manifest("run", {"--set", std::string("seed=") + seed, "--set",
                                        std::string("schedules.learning_rate=") +
                                            (arm[0] == 'b' ? "0.5" : "1"),
                                        "--out", run, "--quiet"})
                    .exit_code == 0);
      }
    }
    write_study();
  }

  void write_study() const {
    write_file(cli.out("study/study.json"), plan.dump());
    if (!results.is_null()) write_file(cli.out("study/results.json"), results.dump());
  }

  std::string page() const {
    const Outcome outcome = cli({"report", "study"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return page_of(cli, "study");
  }

  Json measured(const std::string& arm, const std::string& seed) const {
    std::istringstream lines(
        read_file(cli.out("study/runs/" + arm + "/seed-" + seed + "/metrics.jsonl")));
    std::string first;
    std::getline(lines, first);
    return Json::parse(first);
  }

  static Json arm(const std::string& name, double epsilon) {
    return {{"name", name},
            {"steps", 3000},
            {"epsilon", epsilon},
            {"delta", 1e-5},
            {"bound", "upper"},
            {"accountant", "zcdp"},
            {"noise_multiplier", {16.5, 16.5}},
            {"unaccounted", {"training metrics"}}};
  }

  Cli cli;
  Json plan{{"study", 1},
            {"name", "rates"},
            {"privgrad", "0.1.0"},
            {"seeds", {1, 2}},
            {"metrics", {{{"name", "test_accuracy"}, {"better", "higher"}}}},
            {"baseline", "base"},
            {"target_epsilon", 1.0},
            {"target_delta", 1e-5},
            {"adjacency", "zero_out"},
            {"unit", "example"},
            {"stains", Json::array()},
            {"arms", {arm("base", 0.99996), arm("fast", 1.0)}}};
  Json results{
      {"name", "rates"},
      {"baseline", "base"},
      {"stains", Json::array()},
      {"arms",
       {{{"name", "base"},
         {"metrics", {{"test_accuracy", {{"mean", 0.8}, {"std", 0.01}, {"ci95", {0.71, 0.89}}}}}},
         {"versus_baseline", Json::object()}},
        {{"name", "fast"},
         {"metrics", {{"test_accuracy", {{"mean", 0.85}, {"std", nullptr}, {"ci95", nullptr}}}}},
         {"versus_baseline",
          {{"test_accuracy",
            {{"difference", 0.05}, {"ci95", {-0.01, 0.11}}, {"p", 0.07}, {"p_holm", 0.14}}}}}}}},
      {"words", {"fast is 0.05 better than base; that may be chance."}},
      {"choice",
       {{"words", {"Choosing on private rows costs."}},
        {"random_number",
         {{{"distribution", "geometric"},
           {"expected_runs", 2},
           {"epsilon", 3.00001},
           {"delta", 1e-5},
           {"theorem", "Papernot and Steinke 2022"}}}}}}};
};

}  // namespace

TEST_CASE("the page of a study compares its arms") {
  const Study study;
  const std::string page = study.page();
  const std::string seen = visible(page);
  for (const char* text :
       {"<h1>rates</h1>", "2 arms, 2 seeds each", "All 4 of 4 runs", "base (baseline)",
        "0.800 [0.710, 0.890]", "2 completed", "None of the models is for release",
        "fast is 0.05 better than base", "[-0.010, 0.110]", "0.14",
        "Choosing on private rows costs.", "Papernot and Steinke 2022", "in all arms",
        "There is no chart over epsilon"}) {
    CHECK_THAT(seen, ContainsSubstring(text));
  }
  CHECK_THAT(seen, ContainsSubstring(">3.0001</td>"));  // five digits, rounded up
  // The number of completed steps, which is below the plan if a budget ends the run.
  CHECK_THAT(seen, ContainsSubstring(">12</td>"));
  CHECK(seen.find("3000 planned") == std::string::npos);
  CHECK(chart(page, "means-1").at("rows") ==
        Json{{"base", 0.8, 0.71, 0.89}, {"fast", 0.85, 0.85, 0.85}});
  CHECK(chart(page, "pairs-1").at("rows") == Json{{"fast", 0.05, -0.01, 0.11}});
}

TEST_CASE("with levels, the page marks the baseline of each, and says what was searched") {
  Study study;
  study.plan["levels"] = {{"keys", {"data.limit"}}, {"labels", {"100"}}};
  for (Json* json : {&study.plan, &study.results}) {
    for (Json& arm : (*json)["arms"]) {
      arm["variant"] = arm.at("name");
      arm["level"] = "100";
    }
  }
  study.results["search_words"] = {"Each arm is at its own best candidate."};
  study.write_study();
  const std::string seen = visible(study.page());
  for (const char* text :
       {"base (baseline)", "to base, at the same level", "Each arm is at its own best candidate."})
    CHECK_THAT(seen, ContainsSubstring(text));
}

TEST_CASE("each run is a link to its own page, which nothing in a name turns into another") {
  Study study;
  const std::string seen = visible(study.page());
  for (const char* arm : {"base", "fast"}) {
    for (const char* seed : {"1", "2"}) {
      const std::string path = std::string("runs/") + arm + "/seed-" + seed + "/report.html";
      CHECK_THAT(seen, ContainsSubstring("<a href=\"./" + path + "\">"));
      CHECK(std::filesystem::exists(study.cli.out("study/" + path)));
    }
  }
  const auto value = Json::parse(read_file(study.cli.out("study/runs/fast/seed-2/summary.json")))
                         .at("metrics")
                         .at("test_accuracy")
                         .get<double>();
  std::ostringstream shown;
  shown << std::setprecision(4) << value;
  CHECK_THAT(seen, ContainsSubstring("fast/seed-2/report.html\">" + shown.str() + "</a>"));

  const std::string odd = "java script:a\"b#?c%41";
  fs::rename(study.cli.out("study/runs/fast"), study.cli.out("study/runs/" + odd));
  study.plan["arms"][1]["name"] = odd;
  study.write_study();
  CHECK_THAT(visible(study.page()),
             ContainsSubstring(
                 "<a href=\"./runs/java%20script%3Aa%22b%23%3Fc%2541/seed-1/report.html\">"));
}

TEST_CASE("a study of two axes has a map of each metric, the darker the better") {
  Study study;
  CHECK(study.page().find("class=\"heat") == std::string::npos);  // the study has no axes
  study.plan["axes"] = {{{"keys", {"schedules.learning_rate"}}, {"labels", {"0.5", "1"}}},
                        {{"keys", {"steps"}}, {"labels", {"10", "20", "40"}}}};
  study.plan["arms"][0]["labels"] = {{"schedules.learning_rate", "0.5"}, {"steps", "40"}};
  study.plan["arms"][1]["labels"] = {{"schedules.learning_rate", "1"}, {"steps", "10"}};
  const auto row = [](const std::string& name, const std::string& cells) {
    return "<tr><th scope=\"row\">" + name + "</th>" + cells + "</tr>";
  };
  const std::string none = "<td class=\"number\">-</td>";
  const auto cell = [](const char* kind, const char* heat, const char* value) {
    return std::string("<td class=\"heat") + kind + "\" style=\"--heat:" + heat + "\">" + value +
           "</td>";
  };
  study.write_study();
  std::string seen = visible(study.page());
  CHECK_THAT(seen, ContainsSubstring("Rows: learning rate; columns: steps. The darker, "
                                     "the better.</span></caption>"));
  CHECK_THAT(seen, ContainsSubstring(row("0.5", none + none + cell("", "0", "0.8"))));
  CHECK_THAT(seen, ContainsSubstring(row("1", cell(" best", "1", "0.85") + none + none)));

  // Lower losses are better; losses that are far apart are compared by their logarithm.
  study.plan["metrics"] = {{{"name", "test_loss"}, {"better", "lower"}}};
  study.plan["arms"].push_back(Study::arm("middle", 1.0));
  study.plan["arms"][2]["labels"] = {{"schedules.learning_rate", "1"}, {"steps", "20"}};
  study.results["arms"][0]["metrics"] = {{"test_loss", {{"mean", 100.0}}}};
  study.results["arms"][1]["metrics"] = {{"test_loss", {{"mean", 1.0}}}};
  study.results["arms"].push_back(
      {{"name", "middle"}, {"metrics", {{"test_loss", {{"mean", 10.0}}}}}});
  study.write_study();
  seen = visible(study.page());
  CHECK_THAT(seen, ContainsSubstring("the better, on a logarithmic scale."));
  CHECK_THAT(seen, ContainsSubstring(row("0.5", none + none + cell("", "0", "100"))));
  CHECK_THAT(seen,
             ContainsSubstring(row("1", cell(" best", "1", "1") + cell("", "0.5", "10") + none)));

  // With three axes, there is no grid of two axes.
  study.plan["axes"].push_back({{"keys", {"seed"}}, {"labels", {"a", "b"}}});
  study.write_study();
  CHECK(study.page().find("class=\"heat") == std::string::npos);
}

TEST_CASE("what is the same in every step of all arms is a line, not a chart") {
  const Study study;
  const std::string page = study.page();
  CHECK_THAT(visible(page), ContainsSubstring("<dt>Clip norm</dt><dd>1 in every step of all arms"));
  std::size_t slots = 0;
  for (const Json& one : chart_data(page)) {
    if (!one.at("id").get<std::string>().starts_with("slot-")) continue;
    ++slots;
    std::set<double> values;
    for (const Json& series : one.at("series"))
      for (const Json& point : series.at("points")) values.insert(point.at(1).get<double>());
    CHECK(values.size() > 1);
  }
  CHECK(slots >= 1);  // the learning rates, which differ between the arms
}

TEST_CASE("curves have the mean of the seeds and Student's 95 % interval") {
  const Study study;
  const Json point =
      chart(study.page(), "curve-4").at("series").at(1).at("points").at(0);  // train loss of "fast"
  const double a = study.measured("fast", "1").at("train_loss");
  const double b = study.measured("fast", "2").at("train_loss");
  // For two values: s / sqrt(2) = |a - b| / 2, and the 97.5 % quantile of Student's t with one
  // degree of freedom (Cauchy) is tan(0.475 pi).
  const double half = std::tan(0.475 * 3.14159265358979323846) * std::abs(a - b) / 2.0;
  CHECK(point.at(0) == 3);
  CHECK_THAT(point.at(1).get<double>(), WithinRel((a + b) / 2.0, 1e-12));
  CHECK_THAT(point.at(2).get<double>(), WithinRel((a + b) / 2.0 - half, 1e-9));
  CHECK_THAT(point.at(3).get<double>(), WithinRel((a + b) / 2.0 + half, 1e-9));
}

TEST_CASE("where not all curves fit, those that the study names are drawn, however bad they are") {
  Study study;
  for (int i = 0; i < 9; ++i) {
    const std::string name = "worse-" + std::to_string(i);
    std::filesystem::copy(study.cli.out("study/runs/base"), study.cli.out("study/runs/" + name),
                          std::filesystem::copy_options::recursive);
    study.plan["arms"].push_back(Study::arm(name, 1.0));
    study.results["arms"].push_back(
        {{"name", name}, {"metrics", {{"test_accuracy", {{"mean", 0.7 - 0.01 * i}}}}}});
  }
  const auto drawn = [&] {
    study.write_study();
    std::set<std::string> names;
    const Json curves = chart(study.page(), "curve-4").at("series");
    for (const Json& one : curves) names.insert(one.at("name").get<std::string>());
    return names;
  };
  const auto best = drawn();
  study.plan["curves"] = {"worse-8"};
  auto named = drawn();
  CHECK(named.erase("worse-8") == 1);
  CHECK_FALSE(best.contains("worse-8"));
  CHECK(std::includes(best.begin(), best.end(), named.begin(), named.end()));
  CHECK(named.contains("base"));
}

TEST_CASE("arms with clients get their local iterations, and accuracy over rounds and epsilon") {
  const Study study;
  CHECK(study.page().find("Clients and rounds") == std::string::npos);
  // Replaces the base's files by files of federated runs: two measurements, three rounds.
  for (const auto& [seed, accuracy] : {std::pair{"1", 0.5}, std::pair{"2", 0.7}}) {
    const auto dir = study.cli.out(std::string("study/runs/base/seed-") + seed);
    std::string metrics, rounds;
    for (const int round : {1, 3}) {
      metrics += Json{{"step", 4 * round},
                      {"round", round},
                      {"epsilon", 0.9},
                      {"charged_epsilon", 0.2 * round},
                      {"test_accuracy", accuracy + 0.1 * round}}
                     .dump() +
                 "\n";
    }
    for (const int round : {1, 2, 3}) {
      rounds += Json{{"round", round},     {"local_iterations", 4},
                     {"steps", 4 * round}, {"clients", 2},
                     {"dropped", 0},       {"bytes_down", 1},
                     {"bytes_up", 1},      {"charged_epsilon", 0.2 * round}}
                    .dump() +
                "\n";
    }
    write_file(dir / "metrics.jsonl", metrics);
    write_file(dir / "rounds.jsonl", rounds);
  }
  const std::string page = study.page();
  CHECK_THAT(page, ContainsSubstring("Clients and rounds"));
  CHECK_THAT(page, ContainsSubstring("<dt>local iterations</dt><dd>4 in every round of all arms"));
  CHECK_THAT(page, ContainsSubstring("Mean test accuracy against rounds"));
  CHECK_THAT(page, ContainsSubstring("Mean test accuracy against epsilon"));
}

TEST_CASE("arms of different epsilon get a chart over it") {
  Study study;
  study.plan["arms"][1]["epsilon"] = 2.0;
  study.write_study();
  const std::string page = study.page();
  CHECK(chart(page, "epsilon-1").at("series").at(1).at("points") == Json{{2.0, 0.85}});
  CHECK(visible(page).find("There is no chart over epsilon") == std::string::npos);
}

TEST_CASE("a study that was cut off says how far it came and compares nothing") {
  Study study;
  fs::remove(study.cli.out("study/runs/fast/seed-2/summary.json"));
  fs::remove(study.cli.out("study/results.json"));
  const std::string page = study.page();
  CHECK_THAT(visible(page), ContainsSubstring("This study is not finished: 3 of 4 runs"));
  CHECK_THAT(visible(page), ContainsSubstring("There is nothing to compare yet."));
  CHECK(chart(page, "means-1").is_null());
  fs::remove_all(study.cli.out("study/runs"));
  CHECK_THAT(visible(study.page()), ContainsSubstring("0 of 4 runs"));
  CHECK_THAT(visible(study.page()), ContainsSubstring(">3000 planned</td>"));
}

TEST_CASE("a broken or hostile study is refused in one line, or is text") {
  Study study;
  for (const char* name : {"../../outside", "/etc", "..", ""}) {
    study.plan["arms"][1]["name"] = name;
    study.write_study();
    const Outcome outcome = study.cli({"report", "study"});
    check_one_error_line(outcome, 4);
    CHECK_THAT(outcome.err, ContainsSubstring("an arm has no name"));
  }
  study.plan["arms"][1]["name"] = "fast";
  study.plan["name"] = "</script><img src=x>";
  study.plan["stains"] = {"<script>1</script>"};
  study.results["words"] = {"<b onclick=1>"};
  study.write_study();
  const std::string page = study.page();
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find("<script>1") == std::string::npos);
  CHECK(page.find("<b onclick") == std::string::npos);

  for (const char* content : {"", "[]", "{}", "{\"arms\": 7}", "{\"arms\": [7]}",
                              "{\"arms\": [{\"name\": \"a\"}], \"seeds\": [\"x\"]}"}) {
    write_file(study.cli.out("study/study.json"), content);
    INFO(content);
    check_one_error_line(study.cli({"report", "study"}), 4);
  }
}
