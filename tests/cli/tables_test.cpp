// Realistic tables: from a CSV file with texts to a model, and to predictions with names.
#include <algorithm>
#include <limits>
#include <set>

#include "cli.hpp"
#include "npy_file.hpp"

namespace fs = std::filesystem;

namespace {

const std::string kColumns =
    "columns: [{name: age, type: number, min: 0, max: 100, unit: true, fill: 50, indicator: true}, "
    "{name: sex, type: category, values: [f, m], other: true}, {name: smoker, type: boolean, fill: "
    "0.5}, {name: notes, type: text}, {name: id, type: drop}]";
const std::string kDeclared =
    "kind: csv, target: outcome, labels: ['no', 'yes'], other_label: 'no', row: line, malformed: "
    "fill, size: 40, " +
    kColumns;

/// Returns 60 rows whose outcome follows from age; each tenth age is missing.
std::string table() {
  std::string text = "id,age,sex,smoker,notes,outcome\n";
  for (int i = 0; i < 60; ++i) {
    const int age = i * 37 % 100;
    text += std::to_string(i) + "," + (i % 10 == 9 ? "" : std::to_string(age)) + "," +
            (i % 3 == 0 ? "f" : "m") + "," + (i % 2 == 0 ? "yes" : "no") + ",\"fell, twice\"," +
            (age > 50 ? "yes" : "no") + "\n";
  }
  return text;
}

std::string section_of(const std::string& section) {
  return "data={train: t.csv, " + section + "}";
}

Outcome run_on(const Cli& cli, const std::string& section, Words more = {}) {
  more.insert(more.end(), {"--set", section_of(section), "--set", "steps=40", "--set",
                           "privacy.adjacency=add_or_remove_one", "--set",
                           "privacy.target_epsilon=8", "--out", "out"});
  fs::remove_all(cli.out("out"));
  return cli.on_manifest("run", more);
}

}  // namespace

TEST_CASE(
    "tables: a model applies to other files as to its own, and answers by the labels' names") {
  const Cli cli;
  write_file(cli.out("t.csv"), table());
  const Outcome run = run_on(cli, kDeclared, {"--set", "seed=1"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  write_file(cli.out("same.csv"),
             "id,age,sex,smoker,notes,outcome\n0,90,f,yes,x,no\n1,5,m,no,x,no\n2,,x,,x,no\n");
  const Json same = printed_json(cli, {"predict", "out", "--data", "{kind: csv, train: same.csv}"});
  CHECK(same.at("classes") == Json({"no", "yes"}));
  CHECK(same.at("rows") == 3);
  // The columns are in another order, one is new, and the target and unused columns are missing;
  // unseen values count as declared.
  write_file(cli.out("new.csv"),
             "smoker,new,sex,age\nyes,?,f,90\nno,?,m,5\nwho knows,?,unheard of,NaN\n");
  const Json other = printed_json(
      cli, {"predict", "out", "--data", "{kind: csv, train: new.csv, unlabelled: true}"});
  CHECK(other.at("probabilities") == same.at("probabilities"));
  CHECK(other.at("predictions") == same.at("predictions"));
  CHECK(other.at("predictions")[0] != other.at("predictions")[1]);  // the model has learnt
  REQUIRE(cli({"predict", "out", "--data", "{kind: csv, train: new.csv, unlabelled: true}", "--out",
               "p.csv"})
              .exit_code == 0);
  CHECK_THAT(read_file(cli.out("p.csv")),
             ContainsSubstring("row,prediction,class,probability_no,probability_yes\n0,1,yes,"));
  CHECK(cli({"verify", "out"}).exit_code == 0);
}

TEST_CASE("tables: columns of the rows come along with their predictions, and become no features") {
  const Cli cli;
  write_file(cli.out("t.csv"), table());
  REQUIRE(run_on(cli, kDeclared, {"--set", "seed=1"}).exit_code == 0);
  write_file(cli.out("new.csv"),
             "key,smoker,sex,age\n007,yes,f,90\n\"a, \"\"b\"\"\",no,m,5\nbroken\n,yes,m,NA\n");
  const std::string section = "{kind: csv, train: new.csv, unlabelled: true}";
  const Json plain = printed_json(cli, {"predict", "out", "--data", section});
  CHECK_FALSE(plain.contains("kept"));
  const Json json =
      printed_json(cli, {"predict", "out", "--data", section, "--keep", "key", "--keep", "age"});
  // Texts are as in the file, even if the model also reads the column; a broken row has none.
  CHECK(json.at("kept") ==
        Json({{"key", {"007", "a, \"b\"", "", ""}}, {"age", {"90", "5", "", "NA"}}}));
  CHECK(json.at("probabilities") == plain.at("probabilities"));

  const auto predict = [&](Words more) {
    more.insert(more.begin(), {"predict", "out", "--data", section, "--keep", "key"});
    return cli(more);
  };
  REQUIRE(predict({"--keep", "sex", "--out", "p.csv"}).exit_code == 0);
  const std::string csv = read_file(cli.out("p.csv"));
  CHECK(csv.substr(0, csv.find('\n')) ==
        "row,key,sex,prediction,class,probability_no,probability_yes");
  CHECK_THAT(csv, ContainsSubstring("\n0,007,f,1,yes,") &&
                      ContainsSubstring("\n1,\"a, \"\"b\"\"\",m,0,no,") &&
                      ContainsSubstring("\n2,,,"));
  REQUIRE(predict({"--out", "p.jsonl"}).exit_code == 0);
  const std::string lines = read_file(cli.out("p.jsonl"));
  CHECK(Json::parse(lines.substr(0, lines.find('\n'))).at("kept") == Json({{"key", "007"}}));
  CHECK_THAT(predict({}).out, ContainsSubstring("row  ") && ContainsSubstring("007"));
  // The rows of the run itself, whose test rows were split off from one file.
  REQUIRE(run_on(cli, kDeclared + ", split: {test: 0.3, by: id}", {"--set", "seed=1"}).exit_code ==
          0);
  const auto ids = [&](const char* split) {
    const Json made = printed_json(cli, {"predict", "out", "--split", split, "--keep", "id"});
    CHECK(made.at("kept").at("id").size() == made.at("rows").get<std::size_t>());
    return made.at("kept").at("id").get<std::set<std::string>>();
  };
  std::set<std::string> train = ids("train"), test = ids("test");
  CHECK(test.size() > 5);
  train.merge(test);
  CHECK(train.size() == 60);
}

TEST_CASE("tables: what cannot come along is one line, which shows nothing of a row") {
  const Cli cli;
  write_file(cli.out("t.csv"), table());
  REQUIRE(run_on(cli, kDeclared, {"--set", "seed=1"}).exit_code == 0);
  write_file(cli.out("new.csv"), "patient,class,smoker,sex,age\nsecret,a,yes,f,90\n");
  write_file(cli.out("two.csv"), "class,smoker,sex,age\na,yes,f,90\n");
  const auto refused = [&](const std::string& section, Words more, int code,
                           const std::string& what) {
    more.insert(more.begin(), {"predict", "out", "--quiet", "--data", section});
    const Outcome outcome = cli(more);
    INFO(outcome.err);
    check_one_error_line(outcome, code);
    CHECK_THAT(outcome.err, ContainsSubstring(what) && !ContainsSubstring("secret"));
    CHECK_FALSE(fs::exists(cli.out("p.csv")));
  };
  const std::string rows = "{kind: csv, train: new.csv, unlabelled: true}";
  refused(rows, {"--keep", "patent"}, 2,
          "--keep: 'patent' is not a column of the rows; did you mean 'patient'?");
  refused(rows, {"--keep", "patient", "--keep", "patient"}, 2, "'patient' is given twice");
  refused(rows, {"--keep", "class", "--out", "p.csv"}, 2, "would have two columns 'class'");
  refused(rows, {"--keep", "patient", "--out", "p.npy"}, 2, "write .csv or .jsonl");
  refused("{kind: csv, train: new.csv, unlabelled: true, streaming: true}", {"--keep", "patient"},
          2, "remove streaming");
  refused("{kind: csv, train: '*w*.csv', unlabelled: true}", {"--keep", "patient"}, 4,
          "two.csv: has no column 'patient', which is to be kept");
  refused("{kind: synthetic, rows: 5, dimensions: 5}", {"--keep", "id"}, 2,
          "--keep: rows of synthetic have no named columns; rows of csv have them");
  // The option is about rows, and evaluate writes none.
  CHECK_THAT(cli({"evaluate", "out", "--keep", "id"}).err, ContainsSubstring("--keep"));
}

TEST_CASE("tables: rows whose features mean something else are not predicted") {
  const Cli cli;
  write_file(cli.out("t.csv"), table());
  REQUIRE(run_on(cli, kDeclared).exit_code == 0);
  const auto refused = [&](const std::string& section, const std::string& what) {
    const Outcome outcome = cli({"predict", "out", "--data", section});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK_THAT(outcome.err, ContainsSubstring(what));
  };
  std::string swapped = kColumns;
  swapped.replace(swapped.find("[f, m]"), 6, "[m, f]");
  refused("{kind: csv, train: t.csv, " + swapped + "}",
          "feature 2 of the examples is 'sex=m', that of the model 'sex=f'");
  refused("{kind: csv, train: t.csv, labels: ['yes', 'no']}", "class 0 of the examples is 'yes'");
  write_file(cli.out("less.csv"), "age,smoker\n1,yes\n");
  refused("{kind: csv, train: less.csv, unlabelled: true}", "'sex': the table has no such column");
  const Outcome evaluate =
      cli({"evaluate", "out", "--data", "{kind: csv, train: t.csv, unlabelled: true}"});
  CHECK(evaluate.exit_code == 2);
  CHECK_THAT(evaluate.err, ContainsSubstring("no targets"));
  const Outcome run = run_on(cli, kDeclared + ", unlabelled: true");
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("no targets"));
}

TEST_CASE("tables: a table of numbers that was not declared is read by its names, too") {
  const Cli cli;
  write_file(cli.out("t.csv"), "a,b,y\n1,0,0\n0,1,1\n2,0,0\n0,2,1\n");
  REQUIRE(run_on(cli, "kind: csv, target: y", {"--set", "seed=1"}).exit_code == 0);
  write_file(cli.out("new.csv"), "b,a\n0,1\n1,0\n");
  write_file(cli.out("old.csv"), "a,b,y\n1,0,0\n0,1,1\n");
  const auto probabilities = [&](const std::string& section) {
    return printed_json(cli, {"predict", "out", "--data", section}).at("probabilities");
  };
  CHECK(probabilities("{kind: csv, train: new.csv, unlabelled: true}") ==
        probabilities("{kind: csv, train: old.csv}"));
}

TEST_CASE("tables: release mode takes what is declared, whatever stands in the rows") {
  const Cli cli;
  const Words release{"--set", "mode=release"};
  write_file(cli.out("t.csv"), table());
  CHECK(run_on(cli, kDeclared, release).exit_code == 0);
  // A row that does not fit neither ends the run nor is mentioned.
  write_file(cli.out("t.csv"), table() + "secret,secret,secret,secret,secret,secret\n");
  const Outcome odd = run_on(cli, kDeclared, release);
  CHECK(odd.exit_code == 0);
  CHECK(odd.err.find("secret") == odd.err.npos);
  CHECK(odd.err.find("fit") == odd.err.npos);
  // Research mode reports how many such rows there are, but only on standard error.
  const Outcome research = run_on(cli, kDeclared);
  CHECK_THAT(research.err, ContainsSubstring("'smoker': 1 of 61 rows have no valid value"));
  CHECK_THAT(research.err, ContainsSubstring("'notes' is text"));
  for (const char* file : {"summary.json", "statement.json", "facts.json"})
    CHECK(read_file(cli.out("out") / file).find("of 61 rows") == std::string::npos);

  const auto refused = [&](const std::string& section, const std::string& what) {
    const Outcome outcome = run_on(cli, section, release);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring(what));
  };
  write_file(cli.out("t.csv"), "a,b,y\n1,0,0\n0,1,1\n2,0,0\n0,2,1\n");
  refused("kind: csv, target: y, classes: 2, size: 4", "'that every value is a number (columns)'");
  refused("kind: csv, target: y, classes: 2, size: 4",
          "'that every row is well formed (malformed)'");
  refused("kind: csv, target: y, classes: 2, size: 4, columns: [{name: '*', type: number}]",
          "'that every value fits its column: a, b (columns)'");
  CHECK(
      run_on(
          cli,
          "kind: csv, target: y, classes: 2, target_fill: 0, size: 4, row: line, malformed: fill, "
          "columns: [{name: '*', type: number, fill: 0}]",
          release)
          .exit_code == 0);
}

TEST_CASE("tables: a feature of an array that is not finite ends no release run, and is not told") {
  const Cli cli;
  const auto run = [&](float cell, const std::string& fill, const std::string& mode) {
    fs::remove_all(cli.out("out"));
    write_file(cli.out("x.npy"),
               array_file("<f4", "4, 2", std::vector<float>{1, 2, cell, 4, 5, 6, 7, 8}));
    write_file(cli.out("y.npy"), array_file("|u1", "4", std::vector<std::uint8_t>{0, 1, 0, 1}));
    Words words{"--set",
                "data={kind: npy, train: {features: x.npy, targets: y.npy}, classes: 2, size: 4, "
                "target_fill: 0" +
                    fill + "}",
                "--set",
                "steps=4",
                "--set",
                "mode=" + mode,
                "--set",
                "privacy.adjacency=add_or_remove_one",
                "--set",
                "privacy.target_epsilon=8",
                "--out",
                "out"};
    if (mode == "research") words.insert(words.end(), {"--set", "seed=1"});
    return cli.on_manifest("run", words);
  };
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(cli.out("out")))
      names.insert(entry.path().filename().string());
    return names;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const Outcome whole = run(3, ", feature_fill: -7", "release");
  INFO(whole.err);
  REQUIRE(whole.exit_code == 0);
  const auto expected = files();
  for (const float bad : {infinity, -infinity, infinity - infinity}) {
    const Outcome odd = run(bad, ", feature_fill: -7", "release");
    CHECK(odd.exit_code == 0);
    CHECK(odd.err == whole.err);
    CHECK(files() == expected);
  }
  // refused because of the declaration, before any row is read
  for (const float cell : {3.0f, infinity}) {
    const Outcome refused = run(cell, "", "release");
    CHECK(refused.exit_code == 3);
    CHECK_THAT(refused.err, ContainsSubstring("'that every feature is finite (feature_fill)'"));
  }
  // The same bits as for a row that contains the declared number.
  REQUIRE(run(-7, ", feature_fill: -7", "research").exit_code == 0);
  const auto metrics = [&] {
    return Json::parse(read_file(cli.out("out/summary.json"))).at("metrics");
  };
  const Json filled = metrics();
  REQUIRE(run(infinity, ", feature_fill: -7", "research").exit_code == 0);
  CHECK(metrics() == filled);
}

TEST_CASE("tables: a split under replace_one is listed, and refused in release mode") {
  const Cli cli;
  write_file(cli.out("t.csv"), table());
  const std::string split = kDeclared + ", split: {test: 0.3}";
  const std::string fact = "number of examples that are chosen by what they hold";
  const auto plan = [&](const std::string& adjacency, Words more = {}) {
    std::string section = split;
    if (adjacency == "replace_one") section.erase(section.find("size: 40, "), 10);
    more.insert(more.end(),
                {"--set", section_of(section), "--set", "privacy.adjacency=" + adjacency, "--set",
                 "privacy.target_epsilon=8"});
    return cli.on_manifest("plan", more);
  };
  CHECK_THAT(plan("replace_one").out, ContainsSubstring(fact));
  CHECK(plan("add_or_remove_one").out.find(fact) == std::string::npos);
  const Outcome refused = plan("replace_one", {"--set", "mode=release"});
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err, ContainsSubstring(fact));
  CHECK(plan("add_or_remove_one", {"--set", "mode=release"}).exit_code == 0);
  // Test rows are private unless they are declared public.
  CHECK_THAT(plan("add_or_remove_one").out, ContainsSubstring("test metrics"));
}

TEST_CASE("tables: that a split is declared is public, whether it has test rows is not") {
  const Cli cli;
  const auto table_of = [&](std::size_t rows) {
    std::string text = "a,y\n";
    for (std::size_t i = 0; i < rows; ++i)
      text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
    write_file(cli.out("t.csv"), text);
  };
  const std::string columns = "[{name: a, type: number, fill: 0}]", split = "{test: 0.01}";
  const auto has_test_rows = [&](std::size_t rows) {
    table_of(rows);
    return !printed_json(cli, {"data", "describe", "t.csv", "--set", "target=y", "--set",
                               "classes=2", "--set", "target_fill=0", "--set", "columns=" + columns,
                               "--set", "split=" + split})
                .at("test")
                .is_null();
  };
  // With this many rows, no row is a test row; the next one is.
  std::size_t none = 10, some = 4000;
  REQUIRE(!has_test_rows(none));
  REQUIRE(has_test_rows(some));
  while (some - none > 1) {
    const std::size_t middle = (none + some) / 2;
    (has_test_rows(middle) ? some : none) = middle;
  }
  const auto told = [&](std::size_t rows, const std::string& mode) {
    table_of(rows);
    const Outcome outcome = run_on(cli,
                                   "kind: csv, target: y, classes: 2, target_fill: 0, size: 300, "
                                   "row: line, malformed: fill, columns: " +
                                       columns + ", split: " + split,
                                   {"--set", "mode=" + mode});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    Json statement = Json::parse(read_file(cli.out("out/statement.json")));
    for (const char* own : {"date", "data_commitment"}) statement.erase(own);
    return std::pair(read_file(cli.out("out/facts.json")), statement);
  };
  for (const std::string mode : {"release", "research"}) {
    INFO(mode);
    const auto [facts, statement] = told(some, mode);
    CHECK(Json::parse(facts).at("has_test_rows") == true);
    CHECK(statement.at("test_rows") == "private");
    CHECK(told(none, mode) == std::pair(facts, statement));
  }
  // Without rows, the answer is that there are none.
  const Json nothing = printed_json(cli, {"evaluate", "out"});
  CHECK(nothing.at("rows") == 0);
  CHECK(!nothing.contains("loss"));
  CHECK(cli({"evaluate", "out"}).exit_code == 0);
  CHECK(printed_json(cli, {"predict", "out"}).at("rows") == 0);
  CHECK(cli({"verify", "out"}).exit_code == 0);
  // Noise that adapts to test metrics is refused, because there are no test rows.
  const Outcome followed = run_on(cli,
                                  "kind: csv, target: y, classes: 2, target_fill: 0, size: 300, "
                                  "test_is_public: true, columns: " +
                                      columns + ", split: " + split,
                                  {"--set",
                                   "schedules.noise_multiplier={kind: validation, initial: 20, "
                                   "every: 5, threshold: 0.01, factor: 0.8}"});
  CHECK(followed.exit_code == 4);
  CHECK_THAT(followed.err, ContainsSubstring("the split has none"));
}

TEST_CASE("tables: an index that nobody named is remarked on, in research mode") {
  const Cli cli;
  const std::string note = "the first column, 'Unnamed: 0', numbers the rows";
  const auto notes = [&](const std::string& text, const std::string& section = "target: y") {
    write_file(cli.out("t.csv"), text);
    return cli.on_manifest("plan", {"--set", section_of("kind: csv, " + section)}).err;
  };
  CHECK_THAT(notes("Unnamed: 0,a,y\n0,5,0\n1,6,1\n2,7,0\n"), ContainsSubstring(note));
  CHECK_THAT(notes(",a,y\n1,5,0\n2,6,1\n"), ContainsSubstring("the first column, ''"));
  CHECK(notes("Unnamed: 0,a,y\n0,5,0\n2,6,1\n").find("numbers the rows") == std::string::npos);
  CHECK(notes("a,b,y\n0,5,0\n1,6,1\n").find("numbers the rows") == std::string::npos);
  CHECK(notes("Unnamed: 0,a,y\n0,5,0\n1,6,1\n",
              "target: y, columns: [{name: 'Unnamed: 0', type: number}, {name: a, type: number}]")
            .find("numbers the rows") == std::string::npos);
}

TEST_CASE("tables: many files are one table, found by a pattern") {
  const Cli cli;
  fs::create_directory(cli.out("parts"));
  write_file(cli.out("parts/part-2.csv"), "b,a,y\n30,3,0\n");
  write_file(cli.out("parts/part-1.csv"), "a,b,y\n1,10,0\n2,20,1\n");
  write_file(cli.out("parts/other.csv"), "nothing");
  const auto plan = [&](const std::string& file) {
    return cli.on_manifest("plan",
                           {"--set",
                            "data={kind: csv, train: '" + file +
                                "', target: y, classes: 2, target_fill: 0, columns: [{name: '*', "
                                "type: number, fill: 0}]}",
                            "--json"});
  };
  const Outcome outcome = plan("parts/part-*.csv");
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const Outcome none = plan("parts/piece-*.csv");
  CHECK(none.exit_code == 4);
  CHECK_THAT(none.err, ContainsSubstring("no file matches"));
  write_file(cli.out("parts/part-3.csv"), "b,c,y\n30,3,0\n");
  const Outcome odd = plan("parts/part-*.csv");
  CHECK(odd.exit_code == 4);
  CHECK_THAT(odd.err, ContainsSubstring("part-3.csv: has other columns than"));
}

TEST_CASE("tables: what describe suggests is a section that a run takes") {
  const Cli cli;
  write_file(cli.out("t.csv"), table());
  const Outcome suggested =
      cli({"data", "describe", "t.csv", "--set", "target=outcome", "--suggest"});
  INFO(suggested.out << suggested.err);
  REQUIRE(suggested.exit_code == 0);
  CHECK_THAT(suggested.out, ContainsSubstring("# Drafted from all rows"));
  const Json section =
      printed_json(cli, {"data", "describe", "t.csv", "--set", "target=outcome", "--suggest"})
          .at("data");
  const Json expected = Json::parse(R"([
    {"name": "id", "type": "drop"},
    {"name": "age", "type": "number", "min": 0.0, "max": 99.0, "unit": true, "fill": 50.8, "indicator": true},
    {"name": "sex", "type": "category", "values": ["f", "m"], "other": true},
    {"name": "smoker", "type": "boolean", "fill": 0.5},
    {"name": "notes", "type": "drop"}])");
  CHECK(section.at("columns") == expected);
  CHECK(section.at("labels") == Json({"no", "yes"}));
  CHECK(section.at("other_label") == "no");
  const std::string fact = "types, ranges, values and labels of columns";
  CHECK(section.at("read_off_rows") == Json({fact}));
  // The manifest with this section instead of its own one.
  std::string manifest = Cli::kManifest;
  const std::size_t at = manifest.find("data:");
  manifest.replace(at, manifest.find('\n', at) - at + 1, suggested.out);
  write_file(cli.manifest(), manifest);
  const Outcome plan = cli.on_manifest("plan", {"--json"});
  INFO(plan.err);
  REQUIRE(plan.exit_code == 0);
  CHECK(Json::parse(plan.out).at("parameters") == (2 + 3 + 1 + 1) * 2);
  const Json unaccounted = Json::parse(plan.out).at("unaccounted");
  CHECK(std::find(unaccounted.begin(), unaccounted.end(), fact) != unaccounted.end());

  // For release, its author takes responsibility by removing one key.
  const auto on_release = [&](Words more = {}) {
    more.insert(more.end(), {"--set", "mode=release", "--json"});
    return cli.on_manifest("plan", more);
  };
  const Outcome refused = on_release();
  INFO(refused.err);
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err, ContainsSubstring("data.read_off_rows: is refused in release mode"));
  CHECK_THAT(refused.err, ContainsSubstring("remove the key"));
  CHECK(on_release({"--set", "data.read_off_rows=null"}).exit_code == 0);
}

TEST_CASE("tables: records of several lines are one row each, wherever the file is read") {
  const Cli cli;
  std::string text = "age,note,outcome\n";
  for (int i = 0; i < 60; ++i)
    text += std::to_string(i) + (i % 4 == 0 ? ",\"one\ntwo\nthree\"," : ",one,") +
            (i < 30 ? "no" : "yes") + "\n";
  write_file(cli.out("t.csv"), text);
  const std::string section =
      "kind: csv, target: outcome, labels: ['no', 'yes'], other_label: 'no', size: 60, columns: "
      "[{name: age, type: number, fill: 30}, {name: note, type: text}]";
  // Release mode requires a declaration of what a row is, and reports it.
  const Words release{"--set", "mode=release"};
  const Outcome strict = run_on(cli, section, release);
  CHECK(strict.exit_code == 3);
  CHECK_THAT(strict.err, ContainsSubstring("'that every row is well formed (malformed)'"));
  const Outcome silent = run_on(cli, section + ", malformed: fill", release);
  CHECK(silent.exit_code == 2);
  CHECK_THAT(silent.err, ContainsSubstring("say row: line if no value in the file has a line end"));
  const std::string records = section + ", row: record, malformed: fill";
  const Outcome run = run_on(cli, records, release);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Json statement = Json::parse(read_file(cli.out("out/statement.json")));
  const Json& declared = statement.at("declared");
  for (const char* const key : {"row", "malformed"}) {
    const Json fact{{"key", std::string("data.") + key},
                    {"value", key == std::string("row") ? "\"record\"" : "\"fill\""}};
    CHECK(std::count(declared.begin(), declared.end(), fact) == 1);
  }
  CHECK(std::count_if(
            statement.at("prose").begin(), statement.at("prose").end(), [](const Json& sentence) {
              return sentence.get<std::string>().find("data.row = \"record\"") != std::string::npos;
            }) == 1);

  // The same 60 rows in counting, applying, drafting, and in memory.
  const Json described = printed_json(
      cli, {"data", "describe", "t.csv", "--set", "target=outcome", "--set", "labels=['no', 'yes']",
            "--set", "columns=[{name: age, type: number}, {name: note, type: text}]"});
  CHECK(described.at("train").at("examples") == 60);
  CHECK(printed_json(cli, {"predict", "out", "--data", "{kind: csv, train: t.csv}"}).at("rows") ==
        60);
  const Json draft =
      printed_json(cli, {"data", "describe", "t.csv", "--set", "target=outcome", "--suggest"})
          .at("data");
  CHECK(draft.at("row") == "record");
  CHECK(draft.at("malformed") == "fill");
  const auto weights = [&](const std::string& more) {
    const Outcome outcome = run_on(cli, records + more, {"--set", "seed=1"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.err.find("end within quotes") == outcome.err.npos);
    const std::string file = read_file(cli.out("out/model.safetensors"));
    return file.substr(file.size() - 4 * sizeof(float));  // two weights and two biases, as the last
  };
  CHECK(weights("") == weights(", streaming: true"));

  // In research mode, a note is printed if a line is declared to be a row and this seems to be a
  // mistake; a draft for a file without multi-line records uses lines.
  const Outcome lines = run_on(cli, section + ", row: line, malformed: fill");
  CHECK_THAT(lines.err, ContainsSubstring("t.csv: 30 of 90 rows end within quotes") &&
                            ContainsSubstring("say row: record"));
  write_file(cli.out("t.csv"), table());
  CHECK(printed_json(cli, {"data", "describe", "t.csv", "--set", "target=outcome", "--suggest"})
            .at("data")
            .at("row") == "line");
}
