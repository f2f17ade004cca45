// Studies that first search each arm's hyper-parameters, and studies that stop once they are
// precise.
#include <cmath>
#include <functional>
#include <map>
#include <sstream>

#include "cli.hpp"

namespace fs = std::filesystem;

namespace {

/// Two arms at two levels, with two candidate learning rates each.
constexpr const char* kStudy = R"(study: 1
name: searched
base: small.yaml
levels: {privacy.target_epsilon: [1, 4]}
axes: {optimizer: [sgd, {kind: momentum, beta: 0.5}]}
search:
  over: {schedules.learning_rate: [0.01, 0.1, 0.5]}
  arms: {momentum: {optimizer.beta: [0.2, 0.9]}}
  seeds: [101, 102]
  score: test_loss
  set: {data.seed: 5}
seeds: 2
metrics: [test_loss]
baseline: sgd
)";

struct Searched : Cli {
  explicit Searched(const std::string& text = kStudy) { write_file(dir() / "s.yaml", text); }
  Outcome ablate(Words more = {}) const {
    more.insert(more.begin(), {"ablate", "s.yaml", "--out", "s", "--quiet"});
    return (*this)(more);
  }
  Json results(const std::string& folder = "s") const {
    return Json::parse(read_file(out(folder) / "results.json"));
  }
  /// Returns the results' sentences about the search and the number of seeds, as one text.
  std::string said() const {
    std::string all;
    const Json made = results();
    for (const Json& words : made.at("search_words")) all += words.get<std::string>() + " ";
    return all;
  }
  /// Returns the problems that verify finds, as one text; "" if there are none.
  std::string problems() const {
    const Outcome outcome = (*this)({"verify", "s", "--json"});
    INFO(outcome.err);
    const Json json = Json::parse(outcome.out);
    std::string all;
    for (const Json& problem : json.at("problems")) all += problem.get<std::string>() + "\n";
    CHECK((outcome.exit_code == 0) == all.empty());
    return all;
  }
};

void replace(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = read_file(file);
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  write_file(file, text.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("each arm is compared at its own best, found on other seeds and rows", "[ablate]") {
  const Searched work;
  const Outcome outcome = work.ablate();
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json results = work.results();
  const Json& search = results.at("search");

  // The best mean of each arm, according to the table of the search's own runs.
  std::map<std::string, std::pair<std::string, double>> best;
  const Json found = work.results("s/search");
  for (const Json& arm : found.at("arms")) {
    double mean = 0.0;
    for (const Json& value : arm.at("metrics").at("test_loss").at("values"))
      mean += value.get<double>() / 2.0;
    auto& one = best[arm.at("level")];
    if (one.first.empty() || mean < one.second) one = {arm.at("variant"), mean};
  }
  REQUIRE(search.at("choices").size() == 4);
  for (std::size_t a = 0; a < 4; ++a) {
    const Json& choice = search.at("choices").at(a);
    const std::string arm = choice.at("arm");
    CAPTURE(arm);
    CHECK(choice.at("candidate") == best.at(arm).first);
    CHECK_THAT(choice.at("score").get<double>(), WithinRel(best.at(arm).second, 1e-12));
    const bool has_beta = arm.ends_with("momentum");
    CHECK(choice.at("runs") == (has_beta ? 12 : 6));
    CHECK(choice.at("epsilon") > results.at("arms").at(a).at("epsilon"));
    const std::string manifest = read_file(work.out("s/arms") / arm / "manifest.yaml");
    const std::string& candidate = best.at(arm).first;
    const std::string rate = candidate.substr(0, candidate.find('+'));
    CHECK_THAT(manifest, ContainsSubstring("value: " + rate + "\n"));
    if (has_beta)
      CHECK_THAT(manifest, ContainsSubstring("beta: " + candidate.substr(rate.size() + 1)));
    const bool at_edge = rate != "0.1";
    CHECK(choice.at("at_edge").size() == (at_edge ? 1u : 0u));
  }
  CHECK(search.at("rows").at("rows") > 0);
  CHECK(search.at("rows").at("also_tested_on") == 0);
  CHECK(search.at("rows").at("also_trained_on") == 0);
  CHECK(search.at("rows").at("training_in_common") == 0);  // these rows have another public seed
  CHECK_THAT(work.said(), ContainsSubstring("none of which the comparison tests on or trains on."));
  CHECK_THAT(work.said(), ContainsSubstring("costs those rows no privacy"));
  CHECK(work.problems() == "");
}

TEST_CASE("a search that scores on the comparison's own rows is said to", "[ablate]") {
  std::string text = kStudy;
  text.erase(text.find("  set: {data.seed: 5}\n"), 22);
  const Searched work(text);
  const Outcome outcome = work.ablate();
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json rows = work.results().at("search").at("rows");
  CHECK(rows.at("also_tested_on") == rows.at("rows"));
  CHECK(rows.at("training_in_common") > 0);
  CHECK_THAT(work.said(), !ContainsSubstring("costs those rows no privacy"));
  const std::string all = rows.at("rows").dump();
  CHECK_THAT(work.said(),
             ContainsSubstring("scored on " + all + " rows; of these the comparison tests on " +
                               all + " and trains on none."));
}

TEST_CASE("a search that was cut off goes on, and ends in the same bytes", "[ablate]") {
  const Searched work;
  REQUIRE(work({"ablate", "s.yaml", "--out", "whole", "--quiet"}).exit_code == 0);
  {
    Process process(work.prepare({"ablate", "s.yaml", "--out", "s", "--quiet", "--jobs", "1"}));
    const fs::path runs = work.out("s/search/runs");
    REQUIRE(
        Process::wait_for([&] { return fs::exists(runs / "1+sgd+0.5/seed-101/summary.json"); }));
    process.send(SIGKILL);
    process.finish();
  }
  REQUIRE(work.ablate().exit_code == 0);
  for (const char* file : {"results.json", "results.csv", "search/results.json"})
    CHECK(read_file(work.out("s") / file) == read_file(work.out("whole") / file));
}

TEST_CASE("verify: choices follow from the runs of the search", "[ablate][verify]") {
  const Searched work;
  REQUIRE(work.ablate().exit_code == 0);
  struct Edit {
    const char* file;
    const char* from;
    const char* to;
    const char* seen;
  };
  for (const Edit& edit :
       {Edit{"study.json", "\"score\": 0.", "\"score\": 1.", "study.json: has another 'search'"},
        Edit{"study.json", "\"runs\": 6", "\"runs\": 5", "study.json: has another 'search'"},
        Edit{"results.json", "\"candidate\": \"", "\"candidate\": \"0",
             "results.json: has another 'search'"},
        Edit{"search/study.json", "\"seeds\": [\n    101,", "\"seeds\": [\n    103,", "search/"},
        Edit{"search/results.json", "\"mean\": ", "\"mean\": 1", "search/results.json"},
        Edit{"arms/1+sgd/plan.json", "\"epsilon\": ", "\"epsilon\": 0.1", "arms/1+sgd/plan.json"},
        Edit{"privgrad.lock", "sha256 = \"", "sha256 = \"0", "privgrad.lock"},
        Edit{"privgrad.lock", "version = \"0", "version = \"7", "privgrad.lock"},
        Edit{"search/privgrad.lock", "version = \"0", "version = \"7", "search/privgrad.lock"},
        Edit{"search/runs/1+sgd+0.1/seed-101/summary.json", "\"test_loss\": ", "\"test_loss\": 1",
             "search/runs/1+sgd+0.1/seed-101"}}) {
    INFO(edit.file << " " << edit.from);
    const fs::path file = work.out("s") / edit.file;
    const std::string before = read_file(file);
    replace(file, edit.from, edit.to);
    CHECK_THAT(work.problems(), ContainsSubstring(edit.seen));
    write_file(file, before);
  }
  const fs::path asked = work.out("s/study.yaml");
  const std::string before = read_file(asked);
  replace(asked, "[101, ", "[1, ");
  const Outcome reused = work({"verify", "s"});
  CHECK(reused.exit_code == 4);
  CHECK_THAT(reused.err, ContainsSubstring("has 1, which the comparison uses"));
  write_file(asked, before);
  fs::rename(work.out("s/search"), work.out("kept"));
  CHECK_THAT(work.problems(), ContainsSubstring("search"));
}

namespace {

/// A study made from one file, but passed on as if made from another.
struct Forged : Searched {
  Forged(const std::string& made, const std::string& claimed) : Searched(made) {
    REQUIRE(ablate().exit_code == 0);
    REQUIRE(problems() == "");
    write_file(dir() / "s.yaml", claimed);
    const Outcome other = (*this)({"ablate", "s.yaml", "--out", "other", "--quiet"});
    INFO(other.err);
    REQUIRE(other.exit_code == 0);
    fs::copy_file(out("other/study.yaml"), out("s/study.yaml"),
                  fs::copy_options::overwrite_existing);
  }
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("verify: a search is that of its study in every run", "[ablate][verify]") {
  SECTION("one that was made on the comparison's own rows, and claims others") {
    const Forged work(replaced(kStudy, "  set: {data.seed: 5}\n", ""), kStudy);
    CHECK_THAT(work.problems(),
               ContainsSubstring("search/arms/1+sgd+0.01/manifest.yaml: is not this arm of "
                                 "study.yaml: it has another data.seed"));
  }
  SECTION("one whose candidates are called otherwise") {
    const Forged work(replaced(kStudy, "[0.01, 0.1, 0.5]", "{a: 0.01, b: 0.1, c: 0.5}"),
                      replaced(kStudy, "[0.01, 0.1, 0.5]", "{a: 0.01, b: 0.5, c: 0.1}"));
    CHECK_THAT(work.problems(), ContainsSubstring("search/arms/1+sgd+b/manifest.yaml: is not this "
                                                  "arm of study.yaml"));
  }
}

TEST_CASE("verify: rows of a search that cannot be are found", "[ablate][verify]") {
  const Searched work(replaced(kStudy, "  set: {data.seed: 5}\n", ""));
  REQUIRE(work.ablate().exit_code == 0);
  REQUIRE(work.problems() == "");
  const std::string said = read_file(work.out("s/study.json"));
  for (const auto& forge : std::vector<std::function<void(Json&)>>{
           [](Json& rows) { rows["also_tested_on"] = 0; },
           [](Json& rows) { rows["also_tested_on"] = 1; },
           [](Json& rows) { rows["training_in_common"] = 0; },
           [](Json& rows) { rows["split"] = "training"; },
           [](Json& rows) { rows["also_tested_on"] = rows["rows"].get<int>() + 1; },
           [](Json& rows) { rows["data_sets"] = 0; }, [](Json& rows) { rows = nullptr; }}) {
    Json json = Json::parse(said);
    forge(json["search"]["rows"]);
    CAPTURE(json["search"]["rows"].dump());
    write_file(work.out("s/study.json"), json.dump(2) + "\n");
    CHECK_THAT(work.problems(), ContainsSubstring("study.json: "));
  }
}

TEST_CASE("verify: a rule of seeds was followed", "[ablate][verify]") {
  const std::string head =
      "study: 1\nname: ruled\nbase: small.yaml\naxes: {schedules.learning_rate: [0.2, 0.5]}\n"
      "metrics: [test_loss]\n";
  const auto seeds = [&](const std::string& rule) { return head + "seeds: " + rule + "\n"; };
  SECTION("more seeds than it would have taken") {
    const Forged work(seeds("6"), seeds("{until: {test_loss: 1000}, at_least: 3, at_most: 6}"));
    CHECK_THAT(work.problems(),
               ContainsSubstring("seed-4: does not belong to an arm and seed of the study"));
  }
  SECTION("fewer") {
    const Forged work(seeds("3"), seeds("{until: {test_loss: 1e-9}, at_least: 3, at_most: 6}"));
    CHECK_THAT(work.problems(), ContainsSubstring("runs/0.2/seed-4"));
  }
}

TEST_CASE("what a comparison is corrected for is settled before its runs", "[ablate]") {
  const Searched work;
  REQUIRE(work.ablate().exit_code == 0);
  const std::string search = read_file(work.out("s/search/study.json"));
  const auto refused = [&](const std::string& text, const std::string& what) {
    write_file(work.dir() / "s.yaml", text);
    const Outcome outcome = work.ablate();
    check_one_error_line(outcome, 2);
    CHECK_THAT(outcome.err, ContainsSubstring("which were made for " + what));
    CHECK(read_file(work.out("s/search/study.json")) == search);
  };
  refused(replaced(kStudy, "score: test_loss", "score: train_loss"), "another search");
  refused(replaced(kStudy, "0.1, 0.5]", "0.1]"), "another search");
  refused(std::string(kStudy) + "equivalence: {test_loss: 0.1}\n", "no such equivalence");
  refused(
      replaced(kStudy, "\nseeds: 2", "\nseeds: {until: {test_loss: 1}, at_least: 2, at_most: 4}"),
      "no such rule of seeds");
  // A larger number of seeds, if fixed in advance, asks the same question.
  write_file(work.dir() / "s.yaml", replaced(kStudy, "\nseeds: 2", "\nseeds: 3"));
  CHECK(work.ablate().exit_code == 0);
}

TEST_CASE("what was compared stays in the comparison", "[ablate][verify]") {
  const Searched work;
  REQUIRE(work.ablate().exit_code == 0);
  const std::string results = read_file(work.out("s/results.json"));
  const auto refused = [&](const std::string& text, const std::string& what) {
    write_file(work.dir() / "s.yaml", text);
    const Outcome outcome = work.ablate();
    check_one_error_line(outcome, 2);
    CHECK_THAT(outcome.err, ContainsSubstring("already has runs, and now lacks " + what + ";"));
    CHECK(read_file(work.out("s/results.json")) == results);
  };
  refused(replaced(kStudy, "\nseeds: 2", "\nseeds: [2, 3]"), "the seed 1");
  refused(replaced(kStudy, "[1, 4]", "[1]"), "the arm 4+sgd");
  refused(replaced(kStudy, "baseline: sgd", "baseline: momentum"), "the baseline 1+sgd");
  refused(replaced(kStudy, "metrics: [test_loss]", "metrics: [train_loss, test_loss]"),
          "the metric test_loss as the first");
  // A run that was removed by other means is detected.
  fs::copy(work.out("s/runs/1+sgd/seed-2"), work.out("s/runs/1+sgd/seed-3"));
  CHECK(work.problems() == "runs/1+sgd/seed-3: does not belong to an arm and seed of the study\n");
}

namespace {

/// Returns forty rows of a table, with exchanged labels if requested.
std::string table(bool exchanged) {
  std::string text = "a,b,y\n";
  for (int i = 0; i < 40; ++i) {
    const bool label = (i * 7 % 10 < 5) != exchanged;
    text += std::to_string((i * 37 % 100 - 50) / 10.0) + "," + std::to_string(i % 9 - 4) +
            (label ? ",yes\n" : ",no\n");
  }
  return text;
}

/// Two optimizers on that table, whose rates are searched as `set` says.
struct SearchedTable : Searched {
  explicit SearchedTable(const std::string& set) : Searched("") {
    write_file(dir() / "train.csv", table(false));
    write_file(dir() / "test.csv", table(false));
    write_file(dir() / "s.yaml", R"(study: 1
base:
  privgrad: 1
  data:
    kind: csv
    train: train.csv
    test: test.csv
    columns: [{name: "*", type: number, min: -5, max: 5, unit: true, fill: 0}]
    target: y
    labels: [no, yes]
    other_label: no
    row: line
    malformed: fill
    size: 40
  model: linear
  sampler: full_batch
  optimizer: sgd
  schedules: {clip_norm: 1, learning_rate: 0.5}
  privacy: {target_epsilon: 2, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: zcdp}
  steps: 4
axes: {optimizer: [sgd, {kind: momentum, beta: 0.5}]}
seeds: 2
metrics: [test_loss]
search:
  over: {schedules.learning_rate: [0.1, 0.5, 1]}
  seeds: [101]
  score: test_loss
)" + set);
  }
};

}  // namespace

TEST_CASE("a search that reads the same rows otherwise is not said to have seen others",
          "[ablate][verify][privacy]") {
  const SearchedTable work(
      "  set: {data.columns: [{name: \"*\", type: number, min: -4, max: 4, unit: true, fill: "
      "0}]}\n");
  const Outcome outcome = work.ablate();
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(work.results().at("search").at("rows").at("read_alike") == false);
  CHECK_THAT(work.said(), !ContainsSubstring("none of which"));
  CHECK_THAT(work.said(), !ContainsSubstring("costs those rows no privacy"));
  CHECK_THAT(work.said(), ContainsSubstring("reads its rows in another way than the search"));
  CHECK_THAT(work.said(), ContainsSubstring("costs up to epsilon "));
  CHECK(work.problems() == "");
  for (const char* file : {"study.json", "results.json"})
    replace(work.out("s") / file, "\"read_alike\": false", "\"read_alike\": true");
  CHECK_THAT(work.problems(), ContainsSubstring("study.json: search.rows"));
}

TEST_CASE("a search on the same rows is part of what choosing costs", "[ablate][privacy]") {
  const SearchedTable work("");
  const Outcome outcome = work.ablate();
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json choice = work.results().at("choice");
  // Two arms with two seeds, after three candidates each with one seed.
  CHECK(choice.at("fixed_grid").at("runs") == 10);
  // Epsilon after k runs of equal rho grows faster than the square root of k.
  const double all = choice.at("fixed_grid").at("epsilon");
  const double three = work.results().at("search").at("choices").at(0).at("epsilon");
  CHECK(all > std::sqrt(10.0 / 3.0) * three);
  CHECK(choice.at("random_number").empty());
  CHECK_THAT(choice.at("words").at(1).get<std::string>(),
             ContainsSubstring("these 10 runs (2 arms, 2 seeds, and 6 of the search)"));
  CHECK(work.problems() == "");
}

TEST_CASE("arms that were trained on different rows are not compared", "[ablate][verify]") {
  const SearchedTable work("");
  REQUIRE(work.ablate().exit_code == 0);
  fs::remove_all(work.out("s/runs/momentum"));
  write_file(work.dir() / "train.csv", table(true));
  const Outcome mixed = work.ablate();
  CHECK(mixed.exit_code == 2);
  CHECK_THAT(mixed.err, ContainsSubstring("sgd/seed-1 and momentum/seed-1 were trained on "
                                          "different rows"));
  CHECK_THAT(work.problems(),
             ContainsSubstring("runs: sgd/seed-1 and momentum/seed-1 were trained on different"));
}

TEST_CASE("verify: a study.yaml that no study has", "[ablate][verify]") {
  const Searched work;
  REQUIRE(work.ablate().exit_code == 0);
  const fs::path asked = work.out("s/study.yaml");
  const std::string before = read_file(asked);
  const auto said = [&](const std::string& text) {
    write_file(asked, text);
    const Outcome outcome = work({"verify", "s"});
    CHECK(outcome.exit_code == 4);
    return outcome.err;
  };
  CHECK_THAT(said(""), ContainsSubstring("study.yaml"));
  CHECK_THAT(said("{[" + std::string(1000, '[')), ContainsSubstring("study.yaml"));
  CHECK_THAT(said("study: 1\nseeds: 2\nbase: ../small.yaml\n"), ContainsSubstring("study.yaml"));
  CHECK_THAT(said("study: 1\nseeds: 2\nbase: " + (work.dir() / "small.yaml").string() + "\n"),
             ContainsSubstring("names a base instead of holding it"));
  fs::remove(asked);
  CHECK_THAT(work({"verify", "s"}).err, ContainsSubstring("study.yaml: is missing"));
  CHECK_THAT(work({"verify", "s/search"}).err, ContainsSubstring("study.yaml: is missing"));
  write_file(asked, before);
  // The messages name everything that is missing from study.json, and nothing else.
  const Json whole = Json::parse(read_file(work.out("s/study.json")));
  for (const auto& [key, value] : whole.items()) {
    Json less = whole;
    less.erase(key);
    CAPTURE(key);
    write_file(work.out("s/study.json"), less.dump(2) + "\n");
    if (key != "privgrad") CHECK_THAT(work.problems(), ContainsSubstring("study.json"));
  }
}

TEST_CASE("a search that was scored on rows that the comparison trains on is not free",
          "[ablate]") {
  const Searched work(replaced(replaced(kStudy, "score: test_loss", "score: train_loss"),
                               "  set: {data.seed: 5}\n", ""));
  const Outcome outcome = work.ablate();
  REQUIRE(outcome.exit_code == 0);
  const Json rows = work.results().at("search").at("rows");
  CHECK(rows.at("split") == "training");
  CHECK(rows.at("also_trained_on") == rows.at("rows"));
  CHECK_THAT(work.said(), !ContainsSubstring("costs those rows no privacy"));
  CHECK_THAT(work.said(),
             ContainsSubstring("tests on none and trains on " + rows.at("rows").dump() + "."));
  CHECK_THAT(work.said(), ContainsSubstring("choosing an arm's hyper-parameters after its own "
                                            "costs up to epsilon "));
}

TEST_CASE("verify: a search that the study says nothing of is found", "[ablate][verify]") {
  std::string text = kStudy;
  text.erase(text.find("search:"), text.find("seeds: 2") - text.find("search:"));
  const Searched work(text);
  REQUIRE(work.ablate().exit_code == 0);
  CHECK(work.problems() == "");
  fs::create_directories(work.out("s/search"));
  CHECK_THAT(work.problems(), ContainsSubstring("study.yaml says nothing of a search"));
}

TEST_CASE("candidates that would share their runs are refused", "[ablate]") {
  const Searched work(R"(study: 1
name: shared
base: small.yaml
arms: {a: {}, a+b: {}}
search:
  arms:
    a: {schedules.learning_rate: {b+c: 0.1}}
    a+b: {schedules.learning_rate: {c: 0.2}}
  seeds: [7]
seeds: 2
)");
  const Outcome outcome = work.ablate();
  check_one_error_line(outcome, 2);
  CHECK_THAT(outcome.err, ContainsSubstring("two candidates of the search are called 'a+b+c'"));
}

TEST_CASE("seeds are added until differences are known to a width, and then no more", "[ablate]") {
  const std::string text = R"(study: 1
name: precise
base: small.yaml
axes: {schedules.learning_rate: [0.2, 0.5]}
seeds: {until: {test_loss: WIDTH}, at_least: 3, at_most: 12}
metrics: [test_loss]
)";
  const auto with_width = [&](const std::string& width) {
    std::string one = text;
    return one.replace(one.find("WIDTH"), 5, width);
  };
  SECTION("a width that the first seeds reach") {
    const Searched work(with_width("1000"));
    REQUIRE(work.ablate().exit_code == 0);
    CHECK(work.results().at("seeds").size() == 3);
    CHECK(work.results().at("search_words") ==
          Json{"Seeds were added until the intervals of all differences were at most so wide: "
               "test_loss 1e+03; with looks at 3, 6, 12 seeds. It ended at 3, where they are. "
               "Intervals and p hold for all 3 looks together (Bonferroni)."});
    CHECK(work.problems() == "");
  }
  SECTION("one that none reach: the intervals are those of three looks") {
    const Searched work(with_width("1e-9"));
    REQUIRE(work.ablate().exit_code == 0);
    const Json results = work.results();
    CHECK(results.at("seeds").size() == 12);
    CHECK_THAT(results.at("search_words").at(0).get<std::string>(),
               ContainsSubstring("It ended at 12, where they are not."));
    CHECK(work.problems() == "");
    const Json& versus = results.at("arms").at(1).at("versus_baseline").at("test_loss");
    // The same runs, with a number of seeds that is fixed in advance.
    write_file(
        work.dir() / "s.yaml",
        std::string(text).replace(text.find("seeds: {"),
                                  text.find("metrics") - text.find("seeds: {"), "seeds: 12\n"));
    REQUIRE(work({"ablate", "s.yaml", "--out", "fixed", "--quiet"}).exit_code == 0);
    const Json fixed = work.results("fixed");
    const Json& once = fixed.at("arms").at(1).at("versus_baseline").at("test_loss");
    CHECK(versus.at("difference") == once.at("difference"));
    CHECK_THAT(versus.at("p").get<double>(),
               WithinRel(std::min(1.0, 3.0 * once.at("p").get<double>()), 1e-9));
    CHECK_THAT(versus.at("p_sign_flip").get<double>(),
               WithinRel(std::min(1.0, 3.0 * once.at("p_sign_flip").get<double>()), 1e-9));
    CHECK(versus.at("ci95").at(0) < once.at("ci95").at(0));
  }
}

TEST_CASE("studies compare means of gradient norms along runs, and search by them") {
  const Searched work(R"(study: 1
base: small.yaml
set: {gradient_norm: true, evaluate_every: 1, steps: 5}
axes: {optimizer: [sgd, {kind: momentum, beta: 0.5}]}
search:
  over: {schedules.learning_rate: [0.1, 0.5]}
  seeds: [101]
  score: mean_gradient_norm
  set: {data.seed: 5}
seeds: 2
metrics: [mean_gradient_norm]
)");
  const Outcome outcome = work.ablate();
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  for (const Json& arm : work.results().at("arms")) {
    const Json& values = arm.at("metrics").at("mean_gradient_norm").at("values");
    REQUIRE(values.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      const fs::path run = work.out("s") / "runs" / arm.at("name").get<std::string>() /
                           ("seed-" + std::to_string(i + 1));
      std::istringstream lines(read_file(run / "metrics.jsonl"));
      double sum = 0.0;
      for (std::string line; std::getline(lines, line);)
        sum += Json::parse(line).at("gradient_norm").get<double>();
      CHECK_THAT(values[i].get<double>(), WithinRel(sum / 5.0, 1e-14));
    }
  }
  CHECK_THAT(read_file(work.out("s") / "results.csv"),
             ContainsSubstring(",test_accuracy,mean_gradient_norm\n"));
  CHECK(work.problems().empty());
}

TEST_CASE("a study with an arm without privacy states no epsilon of all, nor of choosing",
          "[ablate]") {
  const Cli cli;
  write_file(cli.dir() / "s.yaml",
             "study: 1\nbase: small.yaml\nseeds: 2\nequal_privacy: false\n"
             "arms: {noisy: {}, plain: {privacy.noise: off}}\n");
  const Outcome outcome = cli({"ablate", "s.yaml", "--out", "s", "--quiet"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Json results = Json::parse(read_file(cli.out("s") / "results.json"));
  CHECK(results.at("target_epsilon").is_null());
  CHECK(cli({"report", "s", "--markdown", "s.md"}).exit_code == 0);
  CHECK(read_file(cli.out("s.md")).find("every arm epsilon") == std::string::npos);
  CHECK(read_file(cli.out("s/report.html")).find("epsilon at most") == std::string::npos);
  const Json& choice = results.at("choice");
  CHECK(choice.at("fixed_grid").at("epsilon").is_null());
  CHECK(choice.at("words").at(1) ==
        "No finite epsilon is proved for choosing the best of these 4 runs (2 arms, 2 seeds): an "
        "arm is without privacy.");
  CHECK(choice.at("words").size() == 4);
  const Outcome verified = cli({"verify", "s"});
  INFO(verified.out);
  CHECK(verified.exit_code == 0);
  CHECK(verified.out.starts_with("verified\n"));  // no epsilon is stated for the runs
  CHECK_THAT(verified.out, ContainsSubstring("note: the arm plain has no noise: nothing is "
                                             "guaranteed for its runs"));
  replace(cli.out("s/results.csv"), "noisy,1", "noisy,7");
  CHECK(cli({"verify", "s"}).exit_code == 3);
}
