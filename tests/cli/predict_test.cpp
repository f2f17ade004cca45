// predict and evaluate: what a user can do with a trained model.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "cli.hpp"
#include "test_python.hpp"

namespace fs = std::filesystem;

namespace {

const Words kPrepared{"--set", "data.transforms=[standardize, {kind: pca, dimensions: 3}]"};

/// Makes a seeded run of the small manifest with preprocessing.
void train(const Cli& cli, Words more = kPrepared) {
  more.insert(more.end(), {"--set", "seed=1", "--out", "out", "--quiet"});
  const Outcome outcome = cli.on_manifest("run", more);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
}

}  // namespace

TEST_CASE("evaluate: the same numbers, to the last bit, as the run found on its test rows") {
  const Cli cli;
  train(cli);
  const Json summary = Json::parse(read_file(cli.out("out/summary.json")));
  Json now = printed_json(cli, {"evaluate", "out"});
  CHECK(now.at("split") == "test");
  CHECK(now.at("private") == true);
  now.erase("model");
  now.erase("split");
  CHECK(now == summary.at("test_evaluation"));
  CHECK(now.at("accuracy") == summary.at("metrics").at("test_accuracy"));
  CHECK(std::abs(now.at("loss").get<double>() -
                 summary.at("metrics").at("test_loss").get<double>()) < 1e-9);
  CHECK(now.at("rows") == 20);
  // The columns have not changed, so the model file without a section gives the same result.
  const Json by_file = printed_json(cli, {"evaluate", "out/model.safetensors", "--threads", "1"});
  CHECK(by_file.at("loss") == now.at("loss"));
}

TEST_CASE("evaluate: what is private is told, and what was declared public is not") {
  const Cli cli;
  train(cli);
  CHECK(cli({"evaluate", "out"}).err.find("private") != std::string::npos);
  const Json open = printed_json(
      cli, {"evaluate", "out", "--data",
            "{kind: synthetic, rows: 10, test_rows: 10, dimensions: 4, test_is_public: true}"});
  CHECK(open.at("private") == false);
  const Json train_rows = printed_json(
      cli, {"evaluate", "out", "--split", "train", "--data",
            "{kind: synthetic, rows: 10, test_rows: 10, dimensions: 4, test_is_public: true}"});
  CHECK(train_rows.at("private") == true);
}

TEST_CASE("a class that is never predicted is remarked on, of rows that may be shown") {
  const Cli cli;
  std::string rows = "a,y\n";
  for (int i = 0; i < 200; ++i) rows += std::to_string(i % 7) + (i % 25 == 0 ? ",yes\n" : ",no\n");
  for (const char* name : {"t.csv", "u.csv"}) write_file(cli.out(name), rows);
  const auto run = [&](const std::string& more, Words words = {}) {
    std::filesystem::remove_all(cli.out("out"));
    words.insert(words.end(),
                 {"--out", "out", "--set", "privacy.adjacency=add_or_remove_one", "--set",
                  "data={kind: csv, train: t.csv, test: u.csv, target: y, labels: ['no', 'yes'], "
                  "other_label: 'no', row: line, malformed: fill, size: 200, columns: [{name: a, "
                  "type: number, min: 0, max: 6, unit: true, fill: 0}]" +
                      more + "}"});
    const Outcome outcome = cli.on_manifest("run", words);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    std::string all = outcome.out + outcome.err;
    for (const auto& entry : std::filesystem::directory_iterator(cli.out("out")))
      if (entry.is_regular_file()) all += read_file(entry.path());
    return all;
  };
  const std::string words = "never predicted: 'yes' (8 of 200 rows)";
  const auto times = [&](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++count;
    return count;
  };
  CHECK(times(run("", {"--set", "seed=1"})) >= 2);  // in the output, and in summary.json
  CHECK_THAT(cli({"evaluate", "out"}).err, ContainsSubstring(words));
  REQUIRE(cli({"report", "out"}).exit_code == 0);
  CHECK_THAT(read_file(cli.out("out/report.html")),
             ContainsSubstring("never predicted: &#39;yes&#39; (8 of 200 rows)"));
  // In release mode, nothing is counted on private rows, so there are no remarks.
  CHECK(run("", {"--set", "mode=release"}).find("never predicted") == std::string::npos);
  CHECK(times(run(", test_is_public: true", {"--set", "mode=release"})) >= 2);
}

TEST_CASE("predict: classes and probabilities, in every format the same") {
  const Cli cli;
  train(cli);
  const Json json = printed_json(cli, {"predict", "out"});
  CHECK(json.at("rows") == 20);
  CHECK(json.at("classes") == Json({"0", "1"}));
  REQUIRE(json.at("predictions").size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    const auto& p = json.at("probabilities")[i];
    CHECK(std::abs(p[0].get<double>() + p[1].get<double>() - 1.0) < 1e-12);
    CHECK(json.at("predictions")[i] == (p[1].get<double>() > p[0].get<double>() ? 1 : 0));
  }
  for (const char* name : {"p.csv", "p.npy", "p.jsonl"})
    CHECK(cli({"predict", "out", "--out", name}).exit_code == 0);
  std::istringstream csv(read_file(cli.out("p.csv"))), lines(read_file(cli.out("p.jsonl")));
  std::string head, row, line;
  std::getline(csv, head);
  CHECK(head == "row,prediction,class,probability_0,probability_1");
  const std::string npy = read_file(cli.out("p.npy"));
  CHECK(npy.substr(1, 5) == "NUMPY");
  CHECK(npy.find("'shape': (20, 2)") != std::string::npos);
  CHECK((npy.size() - 20 * 2 * sizeof(double)) % 64 == 0);
  for (std::size_t i = 0; i < 20; ++i) {
    const double p = json.at("probabilities")[i][1].get<double>();
    REQUIRE(std::getline(csv, row));
    CHECK(std::stod(row.substr(row.rfind(',') + 1)) == p);
    REQUIRE(std::getline(lines, line));
    CHECK(Json::parse(line).at("probabilities")[1] == p);
    double of_npy = 0.0;
    std::memcpy(&of_npy, npy.data() + npy.size() - (20 - i) * 16 + 8, sizeof of_npy);
    CHECK(of_npy == p);
  }
}

TEST_CASE("predict: a regression gives values, from rows of a table") {
  const Cli cli;
  write_file(cli.out("train.csv"), "a,b,y\n1,0,2\n0,1,-1\n1,1,1\n2,1,3\n0,0,0\n3,1,5\n");
  write_file(cli.out("section.yaml"), "kind: csv\ntrain: train.csv\ntarget: y\ntask: regression\n");
  const Outcome run = cli.on_manifest(
      "run", {"--set", "data={kind: csv, train: train.csv, target: y, task: regression}", "--set",
              "model={kind: linear}", "--set", "seed=3", "--out", "out", "--quiet"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Json json = printed_json(cli, {"predict", "out", "--data", "section.yaml"});
  REQUIRE(json.at("values").size() == 6);
  CHECK(json.at("values")[0].is_number());
  CHECK_FALSE(json.contains("predictions"));
  const Json metrics = printed_json(cli, {"evaluate", "out", "--data", "section.yaml"});
  double squares = 0.0;
  const double truth[] = {2, -1, 1, 3, 0, 5};
  for (std::size_t i = 0; i < 6; ++i)
    squares += std::pow(json.at("values")[i].get<double>() - truth[i], 2) / 6;
  CHECK_THAT(metrics.at("mse").get<double>(), WithinAbs(squares, 1e-6));
  CHECK(metrics.at("split") == "train");
  // The run itself has no test rows.
  const Outcome none = cli({"predict", "out"});
  CHECK(none.exit_code == 2);
  CHECK(line_count(none.err) == 1);
  CHECK_THAT(none.err, ContainsSubstring("the run has no test rows"));
}

TEST_CASE("predict: what is wrong is one line, and no file is left") {
  const Cli cli;
  train(cli);
  const auto refused = [&](Words words, int code, const std::string& part) {
    words.insert(words.begin(), "predict");
    const Outcome outcome = cli(words);
    INFO(outcome.err);
    CHECK(outcome.exit_code == code);
    CHECK(outcome.out == "");
    CHECK(line_count(outcome.err) == 1);
    CHECK(outcome.err.find(part) != std::string::npos);
  };
  refused({"nowhere"}, 4, "nowhere");
  refused({"out", "--out", "p.txt"}, 2, ".csv, .npy or .jsonl");
  refused({"out", "--out", "no/such/folder/p.csv"}, 4, "no/such/folder");
  refused({"out", "--data", "no.yaml"}, 4, "no.yaml");
  refused({"out", "--data", "{kind: synthetik}"}, 2, "synthetic");
  // A file with rows instead of a section: the message shows none of the rows.
  for (const char* rows : {"id;city\nP1;Bern\nP2;Genf\n", "id,city\nP1,Bern\n", "Bern\n"}) {
    write_file(cli.out("rows.csv"), rows);
    refused({"out", "--data", "rows.csv"}, 2, "rows.csv:1:1: error: contains no section data");
    refused({"out", "--data", "rows.csv"}, 2, "{kind: csv, train: rows.csv}");
    CHECK_THAT(cli({"predict", "out", "--data", "rows.csv"}).err, !ContainsSubstring("Bern"));
  }
  refused({"out", "--data", "{kind: synthetic, rows: 9, dimensions: 7}"}, 2, "features of 7");
  refused({"out", "--data", "{kind: synthetic, rows: 9, dimensions: 4, transforms: [flatten]}"}, 2,
          "transforms");
  refused({"out", "--split", "both"}, 2, "train or test");
  fs::copy(cli.out("out/model.safetensors"), cli.out("alone.safetensors"));
  refused({"alone.safetensors"}, 2, "--data");
  const std::string whole = read_file(cli.out("alone.safetensors"));
  write_file(cli.out("alone.safetensors"), whole.substr(0, whole.size() - 3));
  refused({"alone.safetensors"}, 4, "alone.safetensors");
  write_file(cli.out("alone.safetensors"), "{}");
  refused({"alone.safetensors"}, 4, "cut off");
  CHECK_FALSE(fs::exists(cli.out("p.txt")));
}

TEST_CASE("predict: tampered preprocessing that no transform could have learnt is refused") {
  const Cli cli;
  train(cli);
  std::string bytes = read_file(cli.out("out/model.safetensors"));
  const std::size_t at = bytes.find("\\\"dimensions\\\":3");
  REQUIRE(at != std::string::npos);
  bytes[at + std::strlen("\\\"dimensions\\\":")] = '2';
  write_file(cli.out("out/model.safetensors"), bytes);
  const Outcome outcome = cli({"predict", "out"});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 4);
  CHECK(outcome.err.find("pca") != std::string::npos);
}

TEST_CASE("a model of dense layers is applied by numpy alone, from what its file says") {
  const Cli cli;
  if (!python_has("numpy, safetensors")) {
    WARN("SKIPPED: python3 has no numpy, or no safetensors");
    return;
  }
  train(cli, {"--set", "data.transforms=[standardize]", "--set", "model={kind: mlp, hidden: [5]}"});
  write_file(cli.out("rows.py"),
             "import numpy as np\nrng = np.random.default_rng(0)\n"
             "np.save('x.npy', rng.normal(size=(40, 4)).astype(np.float32))\n"
             "np.save('y.npy', np.zeros(40, np.int64))\n");
  REQUIRE(python({"rows.py"}, cli.dir()).exit_code == 0);
  const Json ours = printed_json(cli, {"predict", "out", "--data",
                                       "{kind: npy, train: {features: x.npy, targets: y.npy}, "
                                       "classes: 2}"});
  const Outcome theirs =
      python({(kSource / "examples/use/predict.py").string(), "out/model.safetensors", "x.npy"},
             cli.dir());
  INFO(theirs.err);
  REQUIRE(theirs.exit_code == 0);
  std::string expected;
  for (const Json& k : ours.at("predictions"))
    expected += ours.at("classes")[k.get<std::size_t>()].get<std::string>() + "\n";
  CHECK(theirs.out == expected);
  CHECK(expected.find('0') != std::string::npos);  // both classes occur
  CHECK(expected.find('1') != std::string::npos);
}
