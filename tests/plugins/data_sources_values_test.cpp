// Values of tables: each value keeps its meaning, however a program has written it.
#include "data_sources_tables.hpp"

namespace data_sources_table_test {

TEST_CASE("table: a value is what it is, however a program has written it", "[data_source]") {
  // If a column has a missing value, pandas writes 2 as 2.0, and true as True; float32 0.1 is 0.1
  // in NumPy, and 0.10000000149011612 in Python.
  const TableFile file(
      "number,category,boolean,label,y\n"
      "1,2,1,1,0\n"
      "1.0,2.0,true,1.0,0\n"
      "True,2e0,TRUE,true,0\n"
      "0.18,0.1,1.0,1,0\n"
      "0.18000000715255737,0.10000000149011612,1,True,0\n"
      "1e-7,1e-07,True,1,0\n"
      "0.0000001,1E-7,yes,1,0\n"
      "1e-400,1.0E-7,0.0,0,0\n"
      "-0,0.10,False,0.0,0\n"
      "0e400,02,0,False,0\n"
      "1e400,9007199254740993,-0.0,false,0\n"
      "16777217,9.007199254740992e+15,0,FALSE,0\n"
      "16777217.0,9007199254740992.0,0,0,0\n");
  const Value columns =
      list({column("number", "number",
                   {{"min", -1, {}}, {"max", 3, {}}, {"unit", true, {}}, {"fill", 2, {}}}),
            column("category", "category",
                   {{"values", list({"2", "0.1", "1e-07", "9007199254740993"}), {}},
                    {"other", true, {}}}),
            column("boolean", "boolean", {{"fill", 0.5, {}}}), column("*", "drop")});
  const auto read = [&](const std::string& target, Value labels) {
    return file.read(
        {{"target", target, {}}, {"labels", std::move(labels), {}}, {"columns", columns, {}}});
  };
  const Dataset data = read("label", list({"0", "1"}));
  const Floats all = features(data);
  const auto place = [&](std::size_t row) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * 7 + 1);
    return std::find(begin, begin + 5, 1.0f) - begin;
  };
  const std::vector<std::ptrdiff_t> places = {0, 0, 4, 1, 1, 2, 2, 2, 4, 4, 3, 3, 3};
  for (std::size_t row = 0; row < places.size(); ++row) {
    INFO("row " << row);
    CHECK(place(row) == places[row]);
    CHECK(all[row * 7 + 6] == (row < 7 ? 1.0f : 0.0f));
  }
  // A number is rounded to float32 and then scaled: 0.25 is the position of 0 in -1..3.
  const auto scaled = [](float x) {
    return static_cast<float>((static_cast<double>(x) + 1.0) / 4.0);
  };
  const Floats numbers = {0.5f,          0.5f,          0.5f,  scaled(0.18f), scaled(0.18f),
                          scaled(1e-7f), scaled(1e-7f), 0.25f, 0.25f,         0.25f,
                          0.75f,         1.0f,          1.0f};
  for (std::size_t row = 0; row < numbers.size(); ++row) CHECK(all[row * 7] == numbers[row]);
  const Floats labels = {1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0};
  CHECK(targets(data) == labels);
  CHECK(targets(read("label", list({"false", "true"}))) == labels);
}

TEST_CASE("table: codes are no numbers, and a text of two values is neither", "[data_source]") {
  const TableFile file("a,y\n1.1,0\n1.10,0\n01,0\n1,0\n1.0,0\n");
  const auto places = [&](Value values) {
    Floats all = features(file.read(
        {{"classes", 2, {}},
         {"columns",
          list({column("a", "category", {{"values", std::move(values), {}}, {"other", true, {}}})}),
          {}}}));
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] == 1.0f) found.push_back(i % (all.size() / 5));
    }
    return found;
  };
  CHECK(places(list({"1.10", "01"})) == std::vector<std::size_t>{0, 0, 1, 1, 1});
  CHECK(places(list({"1.10", "1.100"})) == std::vector<std::size_t>{2, 0, 2, 2, 2});
  CHECK(places(list({"01", "1"})) == std::vector<std::size_t>{2, 2, 0, 1, 1});
  CHECK(places(list({"1.1", "1.10", "1"})) == std::vector<std::size_t>{0, 1, 3, 2, 2});
}

TEST_CASE("table: whole numbers are told apart by digits that float32 drops", "[data_source]") {
  const TableFile file("a,y\n16777216,0\n16777217,0\n16777217.0,0\n0.123456789,0\n0.12345679,0\n");
  const Value column_a = column(
      "a", "category", {{"values", list({"16777217", "0.123456789"}), {}}, {"other", true, {}}});
  CHECK(features(file.read({{"classes", 2, {}}, {"columns", list({column_a}), {}}})) ==
        Floats{0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0});
}

TEST_CASE("table: a number that stands for a missing one does so however it is written",
          "[data_source]") {
  const TableFile file("a,y\n-999,0\n-999.0,0\n-9.99e2,0\n0.1,0\n0.10000000149011612,0\n5,0\n");
  const Value columns = list({column("a", "number", {{"fill", 1, {}}, {"indicator", true, {}}})});
  CHECK(features(file.read({{"classes", 2, {}},
                            {"columns", columns, {}},
                            {"missing", list({"-999", "0.1"}), {}}})) ==
        Floats{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 0});
}

TEST_CASE("table: rows stay on their sides, however a program has written their numbers",
          "[data_source][privacy]") {
  std::string whole = "a,b,y\n", pointed = whole;
  for (int row = 0; row < 64; ++row) {
    const std::string number = std::to_string(row);
    whole += number + "," + (row % 2 == 0 ? "true" : "false") + ",1\n";
    pointed += number + ".0," + (row % 2 == 0 ? "1.0" : "0") + ",1\n";
  }
  const auto sides = [](const std::string& text) {
    const TableFile file(text);
    return features(file.read({{"classes", 2, {}}, {"split", object({{"test", 0.5, {}}}), {}}}));
  };
  CHECK(sides(whole) == sides(pointed));
}

/// Pairs of texts that pandas 3.1 writes for one cell, depending on the other rows.
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Returns the targets of the training rows, in a table in which each row has this cell.
Floats side_of_rows_with(const std::string& cell, Value::Object form = {}) {
  std::string text = "n;cell;y\n";
  for (int row = 0; row < 64; ++row) text += std::to_string(row) + ";" + cell + ";1\n";
  const TableFile file(text);
  form.insert(form.end(), {{"delimiter", ";", {}},
                           {"classes", 2, {}},
                           {"columns", list({column("n", "number"), column("*", "drop")}), {}},
                           {"split", object({{"test", 0.5, {}}}), {}}});
  return features(file.read(form));
}

TEST_CASE("table: rows stay on their sides, however pandas has written a whole column",
          "[data_source][privacy]") {
  const Pairs same = {{"100000000000000005", "1e+17"},
                      {"1152921504606846976", "1.152921504606847e+18"},
                      {"-1152921504606846976", "-1.152921504606847e+18"},
                      {"9007199254740993", "9007199254740992.0"},
                      {"2020-01-01", "2020-01-01 00:00:00"},
                      {"2020-01-01", "2020-01-01 00:00:00.000"},
                      {"2020-01-01", "2020-01-01 00:00:00.000000000"},
                      {"2020-01-02 03:00:00", "2020-01-02 03:00:00.000000"},
                      {"2020-01-02 03:00:00.500", "2020-01-02 03:00:00.500000000"},
                      {"2020-01-01 00:00:00+00:00", "2020-01-01 00:00:00.000+00:00"},
                      {"2020-01-02 03:00:00.5-09:30", "2020-01-02 03:00:00.500000-09:30"},
                      {"1 days", "1 days 00:00:00"},
                      {"1 days 03:00:00", "1 days 03:00:00.000000"}};
  for (const auto& [one, other] : same) {
    INFO(one << " and " << other);
    CHECK(side_of_rows_with(one) == side_of_rows_with(other));
  }
  // By chance, all of 64 rows are on the same sides with probability 2^-64.
  const Pairs different = {{"2020-01-01", "2020-01-02"},
                           {"2020-01-01", "2020-01-01 00:00:01"},
                           {"2020-01-02 03:00:00", "2020-01-02 03:00:00+00:00"},
                           {"1.50", "1.5x0"},
                           {"100000000000000005", "100000000000000105"},
                           {"30", "30,0"}};
  for (const auto& [one, other] : different) {
    INFO(one << " and " << other);
    CHECK(side_of_rows_with(one) != side_of_rows_with(other));
  }
  const Pairs commas = {
      {"30", "30,0"}, {"-2", "-2,0"}, {"0,1", "0,10000000149011612"}, {"1", "1,0"}};
  for (const auto& [one, other] : commas) {
    INFO(one << " and " << other);
    CHECK(side_of_rows_with(one, {{"decimal", ",", {}}}) ==
          side_of_rows_with(other, {{"decimal", ",", {}}}));
  }
}

TEST_CASE("table: a day is one, whatever pandas writes behind it because of other rows",
          "[data_source][privacy]") {
  const auto is_day = [](const std::string& text, const std::string& format) {
    const TableFile file("at,y\n" + text + ",0\n");
    const Value at = column("at", "date",
                            {{"format", format, {}},
                             {"parts", list({"days"}), {}},
                             {"since", "2024-02-28", {}},
                             {"other", true, {}}});
    const Floats found = features(file.read({{"classes", 2, {}},
                                             {"columns", list({at}), {}},
                                             {"missing", list({"1999-12-31", "31.12.1999"}), {}}}));
    REQUIRE(((found == Floats{2, 0}) || (found == Floats{0, 1})));
    return found == Floats{2, 0};
  };
  const std::string iso = "%Y-%m-%d", german = "%d.%m.%Y", seconds = "%Y-%m-%d %H:%M:%S";
  for (const char* const text : {"2024-03-01", "2024-03-01 00:00:00", "2024-03-01 00:00:00.000",
                                 "2024-03-01 00:00:00.000000", "2024-03-01 00:00:00.000000000"}) {
    INFO(text);
    CHECK(is_day(text, iso));
    CHECK(is_day(text, seconds));
  }
  CHECK(is_day("01.03.2024 00:00:00", german));
  CHECK(is_day("2024-03-01 12:30:00.000000", seconds));
  CHECK(is_day("2024-03-01T12:30:00", "%Y-%m-%dT%H:%M:%S.%f"));
  CHECK(is_day("2024-03-01", "%Y-%m-%d %H:%M"));
  // A time of day, which a format without one does not accept, and texts that a list of texts
  // cannot contain.
  for (const char* const text :
       {"2024-03-01 00:00:01", "2024-03-01 12:30:00", "2024-3-1 00:00:00", "2024-03-01 00:00",
        "2024-03-01 00:00:00.0", "2024-03-01 00:00:00 00:00:00", " 00:00:00", "1999-12-31",
        "1999-12-31 00:00:00"}) {
    INFO(text);
    CHECK_FALSE(is_day(text, iso));
  }
  CHECK_FALSE(is_day("31.12.1999 00:00:00", german));
  CHECK_FALSE(is_day("2024-03-01 25:00:00", seconds));
  CHECK_FALSE(is_day("2024-03-01x", seconds));
  CHECK_FALSE(is_day("01.03.2024", "%H:%M %d.%m.%Y"));
}

TEST_CASE("table: a declared day is found with midnight behind it, and without",
          "[data_source][privacy]") {
  const TableFile file(
      "a,y\n2024-03-01,2020-01-01\n2024-03-01 00:00:00,2020-01-01 00:00:00.000\n"
      "1999-12-31,2020-01-02\n1999-12-31 00:00:00.000000,2020-01-02 00:00:00\n"
      "2024-03-01 12:30:00.000,x\n2024-03-01 12:31:00,x\n");
  const Value a =
      column("a", "category",
             {{"values", list({"2024-03-01", "1999-12-31 00:00:00", "2024-03-01 12:30:00"}), {}},
              {"other", true, {}}});
  const Dataset data = file.read({{"labels", list({"x", "2020-01-01", "2020-01-02 00:00:00"}), {}},
                                  {"columns", list({a}), {}}});
  CHECK(targets(data) == Floats{1, 1, 2, 2, 0, 0});
  CHECK(features(data) == Floats{1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0,  //
                                 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
}

TEST_CASE("table: a draft takes days with midnight behind them for days", "[data_source]") {
  const auto drafted = [](const std::string& behind, const std::string& behind_last) {
    std::string text = "at,y\n";
    for (int day = 10; day < 30; ++day)
      text += "2024-03-" + std::to_string(day) + (day < 29 ? behind : behind_last) + "," +
              std::to_string(day % 2) + "\n";
    const TableFile file(text);
    const auto source = file.open();
    const Value made = source->suggest().value();
    const Value& at = std::get<Value::List>(made.find("columns")->data()).front();
    return std::get<std::string>(at.find("format")->data());
  };
  CHECK(drafted("", "") == "%Y-%m-%d");
  CHECK(drafted(" 00:00:00", " 00:00:00") == "%Y-%m-%d");
  CHECK(drafted(" 00:00:00.000", " 10:00:00.250") == "%Y-%m-%d");
  CHECK(drafted(" 10:30:00", " 00:00:00") == "%Y-%m-%d %H:%M:%S");
}

}  // namespace data_sources_table_test
