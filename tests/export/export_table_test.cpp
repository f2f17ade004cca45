// Exported models of tables: onnxruntime receives the raw columns by their names, whatever they
// contain, and returns the results of `privgrad predict` for the same file.
#include <cmath>

#include "../cli/cli.hpp"
#include "onnxruntime.hpp"

namespace {

const std::string kLabels =
    "target: outcome, labels: ['no', 'yes', \"it, depends\"], other_label: 'no'";

/// One column of each kind, in which any text may occur.
const std::string kColumns =
    "columns: [{name: age, type: number, min: 0, max: 100, unit: true, fill: 50, indicator: true}, "
    "{name: income, type: number, min: -1000, fill: 20}, {name: seconds, type: number, min: "
    "1700000000, max: 1700000100, unit: true, fill: 1700000050}, {name: sex, type: category, "
    "values: [f, m], other: true, indicator: true}, {name: 'ward 1', type: category, values: ['1', "
    "'2', NA], other: true}, {name: smoker, type: boolean, fill: 0.5, indicator: true}, {name: "
    "paid, type: boolean, values: [nein, ja], fill: 1}, {name: admitted, type: date, parts: [days, "
    "day, month, weekday], since: 2020-01-01, min: -100, max: 3650, unit: true, other: true}, "
    "{name: born, type: date, format: '%d.%m.%Y', parts: [month], other: true}, {name: seen, type: "
    "date, format: '%m/%d/%Y', parts: [weekday], other: true}, {name: notes, type: text}, {name: "
    "id, type: drop}]";

const std::string kHead =
    "id,age,income,seconds,sex,ward 1,smoker,paid,admitted,born,seen,notes,outcome\n";

/// Returns 60 rows, in which each kind of value occurs.
std::string training_rows() {
  std::string text = kHead;
  for (int i = 0; i < 60; ++i) {
    const std::string two = std::to_string(10 + i % 18);
    text += std::to_string(i) + "," + std::to_string(i * 37 % 100) + "," + std::to_string(i % 7) +
            "," + std::to_string(1700000000 + i) + "," + (i % 3 == 0 ? "f" : "m") + "," +
            std::to_string(i % 3) + "," + (i % 2 == 0 ? "yes" : "no") + "," +
            (i % 5 == 0 ? "ja" : "nein") + ",2021-11-" + two + "," + two + ".3.1980,5/" + two +
            "/2024,x," +
            (i % 3 == 0   ? "no"
             : i % 3 == 1 ? "yes"
                          : "\"it, depends\"") +
            "\n";
  }
  return text;
}

/// Rows unlike any training row: missing, unseen, beyond all bounds, or in other spellings.
const std::string kNewRows =
    kHead +
    "0,31,4,1700000001,f,1,yes,ja,2021-11-12,12.03.1980,5/12/2024,x,no\n"
    "1,,,,,,,,,,,,no\n"
    "2,NaN,NA,?,NA,NA,NA,NA,NA,NA,NA,NA,no\n"
    "3,101,-1e6,1700000200.5,x,3,maybe,Ja,1950-02-28,1.1.2001,02/29/2000,x,no\n"
    "4,-3,1e300,1699999999,F,1.0,TRUE,nein,2099-12-31,01.1.2001,12/31/2100,x,no\n"
    "5,old,1e39,1700000000.25,m,2,0,1,2020-1-5,31.12.1900,1/1/1900,x,no\n"
    "6,0.1,3.4028235e38,1700000033.7,m,1,n,nein,2020-02-29,9.9.1999,9/11/2001,x,no\n"
    "7,1e-3,3.4028235677e38,0,f,2,1,ja,2020-1-05,29.2.2000,12/31/2024,x,no\n"
    "8,+5,3.4028236e38,1e400,f,NA,False,ja,2020-01-31,05.6.2000,1/01/2024,x,no\n"
    // Invalid dates: unreadable, not in the calendar, in another format, and in years that no
    // column accepts.
    "9,5,1,1700000001,Frau,1 ,Yes ,JA,soon,31.02.2024,2/30/2024,x,no\n"
    "10,5,1,1700000001,f ,eins,ja,maybe,2020-01-31 ,1.13.2024,13/1/2024,x,no\n"
    "11,5,1,1700000001,\u00e9,2,oui,nein,31.01.2020,2024-01-01,1.2.2024,x,no\n"
    "12,5,1,1700000001,f,2,y,ja,1899-12-31,31.12.1899,12/31/1899,x,no\n"
    "13,5,1,1700000001,m,2,n,ja,2101-01-01,1.1.2101,1/1/2101,x,no\n"
    "14,5,1,1700000001,m,1,t,ja,0001-01-01,1.1.9999,1/1/0000,x,no\n"
    "15,5,1,1700000001,m,1,t,ja,20-01-01,1.1.99,1/1/24,x,no\n"
    // Midnight as pandas appends it to days, and times of day and spellings that are not days.
    "16,5,1,1700000001,m,1,t,ja,2024-02-29 00:00:00,31.12.2024 00:00:00.000,"
    "02/29/2024 00:00:00.000000000,x,no\n"
    "17,5,1,1700000001,m,1,t,ja,2024-02-29 00:00:01,1.1.2024 00:00:00,01/01/2024 00:00,x,no\n";

struct Theirs {
  Json about;
  std::vector<float> result;
};

struct ExportingTables : Cli {
  /// Trains a model of a table with these columns.
  void train(const std::string& section, const std::string& rows, Words more = {}) const {
    write_file(out("t.csv"), rows);
    more.insert(more.end(), {"--set", "data={kind: csv, train: t.csv, " + section + "}", "--set",
                             "steps=30", "--set", "privacy.target_epsilon=20", "--set", "seed=1",
                             "--quiet", "--out", "run"});
    std::filesystem::remove_all(out("run"));
    const Outcome run = on_manifest("run", more);
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    const Outcome exported = (*this)({"export", "run", "--format", "onnx", "--out", "m.onnx"});
    INFO(exported.err);
    REQUIRE(exported.exit_code == 0);
  }

  Theirs by_onnxruntime(const std::string& rows) const {
    write_file(out("raw.csv"), rows);
    const Outcome outcome = python({(kSource / "tests/export/table_by_onnxruntime.py").string(),
                                    "m.onnx", "raw.csv", "theirs.npy"},
                                   dir());
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return {Json::parse(outcome.out), numbers_of<float>(out("theirs.npy"))};
  }

  Json by_predict(const std::string& rows) const {
    write_file(out("raw.csv"), rows);
    return printed_json(*this, {"predict", "run", "--data", "{kind: csv, train: raw.csv}"});
  }

  /// Checks that all numbers agree within 1e-6, and that classes are the same.
  Theirs check_same(const std::string& rows) const {
    const Json ours = by_predict(rows);
    Theirs theirs = by_onnxruntime(rows);
    const Json& numbers = ours.contains("values") ? ours.at("values") : ours.at("probabilities");
    std::size_t at = 0;
    double least = 1e300, most = -1e300;
    for (const Json& row : numbers) {
      const Json all = row.is_array() ? row : Json::array({row});
      for (const Json& number : all) {
        INFO("number " << at << ": " << number << " and " << theirs.result.at(at));
        const auto value = number.get<double>();
        CHECK(std::abs(value - static_cast<double>(theirs.result.at(at++))) <
              1e-6 * std::max(1.0, std::abs(value)));
        least = std::min(least, value);
        most = std::max(most, value);
      }
    }
    CHECK(at == theirs.result.size());
    CHECK(most - least > 0.05);  // differs between rows and classes
    if (!ours.contains("predictions")) return theirs;
    for (std::size_t row = 0; row < ours.at("predictions").size(); ++row) {
      const auto place = ours.at("predictions")[row].get<std::size_t>();
      CHECK(theirs.about.at("classes")[row] == ours.at("classes")[place]);
    }
    return theirs;
  }
};

/// Checks that refused rows have no numbers, and also no class.
void check_refused(const Theirs& theirs, const std::vector<bool>& refused) {
  const std::size_t width = theirs.result.size() / refused.size();
  for (std::size_t row = 0; row < refused.size(); ++row) {
    INFO(row);
    CHECK(std::isnan(theirs.result[row * width]) == refused[row]);
    CHECK((theirs.about.at("classes")[row] == "") == refused[row]);
  }
}

}  // namespace

TEST_CASE("the graph of a table takes raw columns of every kind, as predict does") {
  NEEDS_ONNXRUNTIME();
  const ExportingTables exporting;
  exporting.train(kLabels + ", " + kColumns, training_rows(),
                  {"--set", "data.transforms=[standardize]"});
  const Theirs theirs = exporting.check_same(kNewRows);
  exporting.check_same(training_rows());
  const auto text = [](const char* name) { return Json({name, "tensor(string)", {"n", 1}}); };
  const auto number = [](const char* name) { return Json({name, "tensor(double)", {"n", 1}}); };
  CHECK(theirs.about.at("inputs") ==
        Json({number("age"), number("income"), number("seconds"), text("sex"), text("ward 1"),
              text("smoker"), text("paid"), text("admitted"), text("born"), text("seen")}));
  CHECK(theirs.about.at("outputs") ==
        Json({{"probabilities", "tensor(float)", {"n", 3}}, {"class", "tensor(string)", {"n"}}}));
  CHECK(theirs.about.at("metadata").at("classes") == R"(["no","yes","it, depends"])");
  // Numbers that are not requested by name are refused, and so are numbers instead of texts.
  REQUIRE(theirs.about.at("refusals").size() == 3);
  for (const Json& refusal : theirs.about.at("refusals")) CHECK(refusal != "");
}

TEST_CASE("the graph of a table without declarations has its columns of numbers by name") {
  NEEDS_ONNXRUNTIME();
  const ExportingTables exporting;
  const std::string rows = "b,a,y\n1,0.25,3\n0,1e-9,-1\n2,123456789,5\n0,2,1\n";
  exporting.train("target: y, task: regression", rows,
                  {"--set", "model={kind: linear}", "--set", "privacy.target_epsilon=1000"});
  const Theirs theirs = exporting.check_same(rows);
  CHECK(theirs.about.at("inputs")[0][0] == "b");
  CHECK(theirs.about.at("outputs") == Json::array({Json({"values", "tensor(float)", {"n", 1}})}));
  // Names that also occur for parts of a graph.
  exporting.train("target: y, task: regression", "value_0,constant_0,layers.0.weight,y\n" +
                                                     rows.substr(rows.find('\n') + 1, 0) +
                                                     "1,2,3,4\n2,0,1,1\n0,3,0,2\n1,1,1,1\n");
  exporting.check_same("value_0,constant_0,layers.0.weight,y\n1,2,3,4\n7,8,-9,0\n");
}

TEST_CASE("the class of a row is that of predict with every loss") {
  NEEDS_ONNXRUNTIME();
  const ExportingTables exporting;
  std::string rows = "a,b,y\n0,0,u\n";
  for (int i = 0; i < 40; ++i) {
    rows += std::to_string(i % 7 - 3) + "," + std::to_string(i % 5 - 2) +
            (i % 2 == 0 ? ",u\n" : ",v\n");
  }
  for (const char* loss : {"logistic", "squared", "cross_entropy"}) {
    INFO(loss);
    exporting.train("target: y, labels: [u, v]", rows,
                    {"--set", std::string("model={kind: linear, loss: ") + loss + "}"});
    exporting.check_same(rows);
  }
}

TEST_CASE("rows that end a call of predict have no numbers in a graph") {
  NEEDS_ONNXRUNTIME();
  const ExportingTables exporting;
  const std::string strict =
      "target: y, labels: ['no', 'yes'], missing: ['', '-999'], columns: [{name: n, type: number}, "
      "{name: c, type: category, values: [u, v]}, {name: b, type: boolean}, {name: d, type: date, "
      "parts: [days, month], since: 1890-06-01}]";
  const std::string good =
      "n,c,b,d,y\n1,u,yes,2024-01-31,no\n2,v,no,1890-01-01,yes\n3,u,1,2100-12-31,no\n";
  exporting.train(strict, good);
  check_refused(exporting.check_same(good), {false, false, false});
  const std::vector<std::string> ends = {",u,1,2024-01-31,no",     "inf,u,1,2024-01-31,no",
                                         "-999,u,1,2024-01-31,no", "1,w,1,2024-01-31,no",
                                         "1,,1,2024-01-31,no",     "1,u,x,2024-01-31,no",
                                         "1,u,,2024-01-31,no",     "1,u,1,,no",
                                         "1,u,1,2023-02-29,no",    "1,u,1,31.01.2024,no",
                                         "1,u,1,1889-12-31,no",    "1,u,1,2101-01-01,no"};
  std::string all = "n,c,b,d,y\n";
  for (const std::string& row : ends) {
    write_file(exporting.out("raw.csv"), "n,c,b,d,y\n" + row + "\n");
    CHECK(exporting({"predict", "run", "--data", "{kind: csv, train: raw.csv}"}).exit_code == 4);
    all += row + "\n";
  }
  check_refused(exporting.by_onnxruntime(all), std::vector<bool>(ends.size(), true));
}

TEST_CASE("a form that reads a day as another one is the form that counts") {
  NEEDS_ONNXRUNTIME();
  const ExportingTables exporting;
  exporting.train(
      "target: y, labels: ['no', 'yes'], columns: [{name: d, type: date, format: '%Y-%d-%m', "
      "parts: [day, month], other: true}]",
      "d,y\n2024-01-02,no\n2024-02-01,yes\n2024-31-12,no\n");
  check_refused(exporting.check_same("d,y\n2024-01-02,no\n2024-2-1,yes\n2024-31-12,no\n,no\n"
                                     "2024-12-31,no\n"),
                {false, false, false, false, false});
  // Digits without blanks between them are read as the source reads them.
  exporting.train(
      "target: y, labels: ['no', 'yes'], columns: [{name: d, type: date, format: '%d%m%Y', parts: "
      "[day, month], other: true}]",
      "d,y\n01022024,no\n02012024,yes\n31122024,no\n");
  exporting.check_same("d,y\n01022024,no\n01112024,no\n,no\n1112024,no\n122024,no\n");
}

TEST_CASE("a column may have the name that a value inside the graph would get") {
  NEEDS_ONNXRUNTIME();
  const ExportingTables exporting;
  const std::string rows = "a,value_0,value_1,y\n1,0,1,0\n0,1,4,1\n2,5,3,1\n";
  exporting.train("target: y, classes: 2", rows);
  exporting.check_same(rows);
}

TEST_CASE("columns that cannot be inputs, or are not those of the model, are one line") {
  const ExportingTables exporting;
  const auto refused = [&](int code, const std::string& what) {
    const Outcome outcome = exporting({"export", "run", "--out", "n.onnx"});
    check_one_error_line(outcome, code);
    CHECK_THAT(outcome.err, ContainsSubstring(what));
  };
  exporting.train("target: y, classes: 2", "b,a,y\n1,0,1\n0,1,0\n2,5,1\n");
  const std::string model = read_file(exporting.out("run/model.safetensors"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = model;
    for (std::size_t at = changed.find(from); at != changed.npos; at = changed.find(from, at + 1))
      changed.replace(at, from.size(), to);
    CHECK(changed != model);
    write_file(exporting.out("run/model.safetensors"), changed);
  };
  with(R"(\"type\":\"number\")", R"(\"type\":\"nomber\")");
  refused(4, "the model's columns are not valid: ");
  with(R"({\"name\":\"b\",\"type\":\"number\"})", R"({\"name\":\"c\",\"type\":\"number\"})");
  refused(4, "the model's columns do not yield its features");
  const auto train = [&](const std::string& more, const std::string& rows) {
    write_file(exporting.out("t.csv"), rows);
    std::filesystem::remove_all(exporting.out("run"));
    const Words words{"--set", "data={kind: csv, train: t.csv, target: y" + more + "}", "--out",
                      "run", "-q"};
    REQUIRE(exporting.on_manifest("run", words).exit_code == 0);
  };
  train("", "class,a,y\n1,0,1\n0,1,0\n2,5,1\n");
  refused(2, "the column 'class' has the name of an output");
  train("", ",a,y\n1,0,1\n0,1,0\n2,5,1\n");
  refused(2, "a column has no name");
  train(", columns: [{name: d, type: date, format: '%Y-%m-%d %H:%M', parts: [day]}]",
        "d,y\n2024-01-02 10:30,0\n2024-01-03 10:30,1\n");
  refused(2, "the dates of 'd' have a time of day (%H)");
}
