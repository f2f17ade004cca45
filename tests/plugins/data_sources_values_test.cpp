// Values of tables: each is what it is, however a program has written it.
#include "data_sources_tables.hpp"

namespace data_sources_table_test {

TEST_CASE("table: a value is what it is, however a program has written it", "[data_source]") {
  // Beside a missing value pandas writes 2 as 2.0, and true as True; float32 is 0.1 to NumPy, and
  // 0.10000000149011612 to Python.
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
  // A number is what float32 holds of it, and then scaled: 0.25 is the place of 0 in -1..3.
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

}  // namespace data_sources_table_test
