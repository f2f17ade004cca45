// Drafts of declarations, made from all rows of a table.
#include <map>

#include "cli.hpp"

TEST_CASE(
    "tables: a draft says what to look at, and describes tables of which nothing is declared") {
  const Cli cli;
  std::string text = "patient_id,amount,age,seen,zip,city,notes,outcome\n";
  for (int i = 0; i < 1200; ++i) {
    const bool is_odd = i % 40 == 7;
    text += std::to_string(7 * i % 8000) + ",\"1," + std::to_string(100 + i % 900) + ".50\"," +
            (is_odd ? "unknown" : std::to_string(i % 90) + ".5") + "," +
            (is_odd ? "unknown" : std::to_string(13 + i % 15) + ".03.2024") + "," +
            std::to_string(10000 + i) + ",Ulm,text " + std::to_string(i) + "," +
            (i % 3 == 0 ? "yes" : "no") + "\n";
  }
  write_file(cli.out("t.csv"), text);
  const Words call = {"data", "describe", "t.csv", "--set", "target=outcome"};
  Words suggest = call;
  suggest.emplace_back("--suggest");
  const Json json = printed_json(cli, suggest);
  CHECK(
      json.at("notes") ==
      Json({"'patient_id': 1200 different values in 1200 rows, as an identifier has: left out",
            "'amount': numbers with commas between their thousands are text here: left out; write "
            "them without",
            "'age': 30 of 1200 values are no numbers, and become the fill",
            "'seen': 30 of 1200 values are no dates of the form %d.%m.%Y, and become other",
            "'zip': 1200 different values in 1200 rows: if they identify rows, say type: drop",
            "'city': every value is the same: left out",
            "'notes': text, which no model here reads (1200 different values in 1200 rows): left "
            "out"}));
  std::map<std::string, Json> columns;
  for (const Json& one : json.at("data").at("columns")) columns[one.at("name")] = one;
  CHECK(columns.at("patient_id").at("type") == "drop");
  CHECK(columns.at("amount").at("type") == "text");
  CHECK(columns.at("age") == Json({{"name", "age"},
                                   {"type", "number"},
                                   {"min", 0.5},
                                   {"max", 89.5},
                                   {"unit", true},
                                   {"fill", columns.at("age").at("fill")},
                                   {"indicator", true}}));
  CHECK(columns.at("seen").at("type") == "date");
  CHECK(columns.at("zip").at("type") == "number");
  CHECK_THAT(cli(suggest).out, ContainsSubstring("\n# 'age': 30 of 1200 values are no numbers"));
  // A table without declarations is described by the draft's declarations.
  const Outcome described = cli(call);
  INFO(described.out << described.err);
  CHECK(described.exit_code == 0);
  CHECK_THAT(described.err, ContainsSubstring("described by the columns that --suggest drafts"));
  CHECK_THAT(described.out, ContainsSubstring("1200"));
}

TEST_CASE("tables: a suggestion finds the delimiter, the decimals and dates") {
  const Cli cli;
  std::string text = "at;either;amount;outcome\n";
  for (int day = 10; day < 30; ++day) {
    const std::string at = std::to_string(day);
    text += at + "/03/2024;" + "0" + std::to_string(day % 9 + 1) + "/02/2024;" + at + ",5;" +
            (day % 2 == 0 ? "yes" : "no") + "\n";
  }
  write_file(cli.out("t.csv"), text);
  const Words call = {"data", "describe", "t.csv", "--set", "target=outcome", "--suggest"};
  const Json section = printed_json(cli, call).at("data");
  CHECK(section.at("delimiter") == ";");
  CHECK(section.at("decimal") == ",");
  CHECK(section.at("columns") == Json::parse(R"([
    {"name": "at", "type": "date", "format": "%d/%m/%Y", "parts": ["days", "month", "weekday"],
     "since": "2024-03-10", "min": 0.0, "max": 19.0, "unit": true, "other": true},
    {"name": "either", "type": "category", "values": ["01/02/2024", "02/02/2024", "03/02/2024",
     "04/02/2024", "05/02/2024", "06/02/2024", "07/02/2024", "08/02/2024", "09/02/2024"],
     "other": true},
    {"name": "amount", "type": "number", "min": 10.5, "max": 29.5, "unit": true, "fill": 20.0}])"));
  const Outcome run = cli({"data", "describe", "t.csv", "--set", "target=outcome"});
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.err, ContainsSubstring("data.delimiter says what separates them"));
}

TEST_CASE("tables: a suggestion finds the delimiter that gives the target a column") {
  const Cli cli;
  std::string text = "name, first;age;outcome\n";
  for (int i = 0; i < 40; ++i)
    text += "Doe, J" + std::to_string(i) + ";" + std::to_string(i) + ";" +
            (i % 2 == 0 ? "yes" : "no") + "\n";
  write_file(cli.out("t.csv"), text);
  const Words call = {"data", "describe", "t.csv", "--set", "target=outcome", "--suggest"};
  const Json section = printed_json(cli, call).at("data");
  CHECK(section.at("delimiter") == ";");
  CHECK(section.at("columns").at(0).at("name") == "name, first");
}

TEST_CASE("tables: a suggestion says what missing targets count as") {
  const Cli cli;
  const auto notes = [&](const std::vector<std::string>& targets) {
    std::string text = "age,outcome\n";
    for (int i = 0; i < 60; ++i)
      text +=
          std::to_string(i) + "," + targets[static_cast<std::size_t>(i) % targets.size()] + "\n";
    write_file(cli.out("t.csv"), text);
    return printed_json(cli, {"data", "describe", "t.csv", "--set", "target=outcome", "--suggest"})
        .at("notes");
  };
  CHECK(notes({"yes", "no", ""}) ==
        Json({"'outcome': 20 of 60 values are missing, and count as 'no', the first label"}));
  CHECK(notes({"1", "0", ""}) ==
        Json({"'outcome': 20 of 60 values are missing, and count as class 0"}));
  CHECK(notes({"1.5", "0", ""}) ==
        Json({"'outcome': 20 of 60 values are missing, and count as the mean"}));
  CHECK(notes({"yes", "no"}).empty());
}
