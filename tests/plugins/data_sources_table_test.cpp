// Tables written by other programs: their columns are declared, and then no row can end a run.
#include <cmath>
#include <map>

#include "data_sources_tables.hpp"

namespace data_sources_table_test {

using privgrad::ConfigError;

namespace {

/// Returns the message that `action` throws.
template <class Error, class Action>
std::string message(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  FAIL("nothing was thrown");
  return "";
}

/// Columns that declare the meaning of every text.
Value declared_columns() {
  return list(
      {column("age", "number",
              {{"min", 0, {}}, {"max", 120, {}}, {"fill", 40, {}}, {"indicator", true, {}}}),
       column("sex", "category",
              {{"values", list({"f", "m"}), {}}, {"other", true, {}}, {"indicator", true, {}}}),
       column("smokes", "boolean", {{"fill", 0.5, {}}}), column("notes", "text"),
       column("*", "drop")});
}

Value::Object declared() {
  return {{"columns", declared_columns(), {}},
          {"labels", list({"no", "yes"}), {}},
          {"other_label", "no", {}},
          {"row", "line", {}},
          {"malformed", "fill", {}}};
}

Value::Object changed(Value::Object params, const std::string& key, Value value) {
  Value whole(std::move(params));
  whole.set(key, std::move(value));
  return std::get<Value::Object>(whole.data());
}

}  // namespace

TEST_CASE("table: declared columns become features in the order of the manifest", "[data_source]") {
  const TableFile file(
      "Unnamed: 0,notes,smokes,y,sex,age\n"
      "0,\"fell, twice\",yes,yes,m,31\n"
      "1,,n,no,f,7.5\n");
  const auto source = file.open(declared());
  const auto info = source->info();
  CHECK(info.shape.features == privgrad::Shape{7});
  CHECK(info.class_names == Names{"no", "yes"});
  CHECK(info.feature_names ==
        Names{"age", "age=(missing)", "sex=f", "sex=m", "sex=(other)", "sex=(missing)", "smokes"});
  CHECK(info.unaccounted.empty());
  const Dataset data = source->read(Split::train);
  // age, age missing, f, m, other, sex missing, smokes
  CHECK(features(data) == Floats{31, 0, 0, 1, 0, 0, 1, 7.5f, 0, 1, 0, 0, 0, 0});
  CHECK(targets(data) == Floats{1, 0});
}

TEST_CASE("table: whatever stands in a declared row, it has features and ends nothing",
          "[data_source]") {
  const std::string head = "age,sex,smokes,notes,y\n";
  const auto row = [&](const std::string& text) {
    const Dataset data = TableFile(head + text + "\n").read(declared());
    Floats all = features(data);
    all.push_back(targets(data)[0]);
    return all;
  };
  CHECK(row("31,f,1,,yes") == Floats{31, 0, 1, 0, 0, 0, 1, 1});
  CHECK(row(",,,,") == Floats{40, 1, 0, 0, 0, 1, 0.5f, 0});  // all missing
  CHECK(row("NA,?,NA,,NA") == Floats{40, 1, 0, 0, 0, 1, 0.5f, 0});
  CHECK(row("old,x,maybe,,perhaps") == Floats{40, 1, 0, 0, 1, 0, 0.5f, 0});
  // beyond float32, so not a number
  CHECK(row("-1e300,F,TRUE,,no") == Floats{40, 1, 0, 0, 1, 0, 1, 0});
  // clipped to the end of the range
  CHECK(row("999,m,f,,yes") == Floats{120, 0, 0, 1, 0, 0, 0, 1});
  CHECK(row("-3,m,f,,YES") == Floats{0, 0, 0, 1, 0, 0, 0, 0});
  CHECK(row("inf,m,f,,yes") == Floats{40, 1, 0, 1, 0, 0, 0, 1});
}

TEST_CASE("table: neither rows nor their order change what another row becomes", "[data_source]") {
  const std::string head = "age,sex,smokes,y\n", row = "31,m,1,yes\n";
  const Floats alone = features(TableFile(head + row).read(declared()));
  for (const std::string other : {"NA,,,\n", "1e9,q,q,q\n", "0,f,no,no\n"}) {
    Floats before = features(TableFile(head + other + row).read(declared()));
    Floats after = features(TableFile(head + row + other).read(declared()));
    CHECK(Floats(before.begin() + 7, before.end()) == alone);
    CHECK(Floats(after.begin(), after.begin() + 7) == alone);
  }
}

TEST_CASE("table: a line is one row, whatever stands in it, and changes no other",
          "[data_source]") {
  const std::string head = "age,sex,smokes,notes,y\n", row = "31,m,1,,yes\n";
  const Floats alone = features(TableFile(head + row).read(declared()));
  // The features of a row of empty fields.
  const Floats filled{40, 1, 0, 0, 0, 1, 0.5f};
  REQUIRE(features(TableFile(head + ",,,,\n").read(declared())) == filled);
  const std::size_t most = std::size_t{1} << 24;
  for (const std::string& line :
       {std::string(), std::string("1,m,1,,yes,more"), std::string("1,m"),
        std::string("\"1,m,1,,yes"), std::string("1,m,1,\"\"x,yes"), std::string("1\",m,1,,yes"),
        std::string("1,m\r,1,,yes"), std::string("\r"), std::string("\xff\xfe"),
        std::string("\0", 1), std::string(std::size_t{2} << 20, ','), std::string(most + 1, 'x'),
        "1,m,1," + std::string(most, 'x') + ",yes", std::string(3 * most, '"')}) {
    CAPTURE(line.size(), line.substr(0, 20));
    for (const std::string end : {"\n", "\r\n"}) {
      const Dataset data = TableFile(head + row + line + end + row).read(declared());
      Floats expected = alone;
      expected.insert(expected.end(), filled.begin(), filled.end());
      expected.insert(expected.end(), alone.begin(), alone.end());
      CHECK(features(data) == expected);
      CHECK(targets(data) == Floats{1, 0, 1});
    }
  }
  // The last line may lack its end; with one more byte the line is too long, wherever it is in the
  // buffer.
  CHECK(features(TableFile(head + "\"31,m").read(declared())) == filled);
  const std::string longest = "31,m,1," + std::string(most - 11, 'x') + ",yes";
  REQUIRE(longest.size() == most);
  for (const std::size_t before : {std::size_t{0}, std::size_t{1000}, std::size_t{70000}}) {
    std::string text = head;
    for (std::size_t i = 0; i < before; ++i) text += row;
    const auto last_of = [&](const std::string& line) {
      const Floats all = features(TableFile(text + line + "\n").read(declared()));
      return Floats(all.end() - 7, all.end());
    };
    CHECK(last_of(longest) == alone);
    CHECK(last_of("x" + longest) == filled);
    CHECK(last_of(longest + "\"") == filled);
  }
}

TEST_CASE("table: a header alone is a table without rows", "[data_source]") {
  const TableFile file("age,sex,smokes,notes,y\n");
  const auto source = file.open(declared());
  CHECK(source->info().train_rows == 0);
  CHECK(source->info().shape.features == privgrad::Shape{7});
  CHECK(source->read(Split::train).rows() == 0);
}

TEST_CASE("table: rows of empty fields need fills for all, and a form in which each line is a row",
          "[data_source]") {
  const TableFile file("age,sex,smokes,notes,y\n");
  const auto says = [&](Value::Object params, const std::string& words) {
    CHECK_THROWS_AS(file.open(params), ConfigError);
    CHECK_THROWS_WITH(file.open(params),
                      ContainsSubstring("malformed is fill") && ContainsSubstring(words));
  };
  const Value::Object fill{{"row", "line", {}}, {"malformed", "fill", {}}, {"classes", 2, {}}};
  says(fill, "columns does not say");
  says(changed(declared(), "columns", list({column("age", "number"), column("*", "drop")})),
       "an empty field of 'age' becomes; say fill: NUMBER");
  says(changed(declared(), "columns",
               list({column("sex", "category", {{"values", list({"f", "m"}), {}}}),
                     column("*", "drop")})),
       "an empty field of 'sex' becomes; say other: true");
  Value::Object labelled = declared();
  std::erase_if(labelled, [](const Value::Member& one) { return one.key == "other_label"; });
  says(labelled, "an empty target becomes; say other_label");
  says(changed(fill, "columns", declared_columns()), "an empty target becomes; say target_fill");
  says(changed(declared(), "comment", "#"), "a row could become a comment");
  says(changed(changed(declared(), "header", false), "target", "4"), "without a header");
}

TEST_CASE(
    "table: without something to put in its place, a value that does not fit is named by its "
    "place, and the check is listed",
    "[data_source]") {
  const Value::Object strict{{"columns",
                              list({column("sex", "category", {{"values", list({"f", "m"}), {}}}),
                                    column("on", "boolean"), column("age", "number")}),
                              {}},
                             {"labels", list({"no", "yes"}), {}}};
  const TableFile file("sex,on,age,y\nf,1,2,no\nm,0,3,yes\n");
  CHECK(file.open(strict)->info().unaccounted ==
        Names{"that every target fits (other_label)", "that every row is well formed (malformed)",
              "that every value fits its column: sex, on, age (columns)"});
  const auto says = [&](const std::string& rows) {
    file.replace("sex,on,age,y\n" + rows);
    const std::string text = message<privgrad::IoError>([&] { file.read(strict); });
    CHECK(text.find("secret") == text.npos);  // no message shows the content of a private row
    return text;
  };
  CHECK_THAT(says("secret,1,2,no\n"),
             ContainsSubstring("table.csv:2:1: the value of column 'sex' is not one of its 2"));
  CHECK_THAT(says("f,secret,2,no\n"),
             ContainsSubstring("table.csv:2:3: the value of column 'on' is not a boolean"));
  CHECK_THAT(says("f,1,secret,no\n"),
             ContainsSubstring("table.csv:2:5: the value of column 'age' is not a finite"));
  CHECK_THAT(says("f,1,2,secret\n"),
             ContainsSubstring("table.csv:2:7: the target is not one of the 2 labels"));
  CHECK_THAT(says("f,1,2,secret,secret\n"), ContainsSubstring("has 5 field(s), expected 4"));
  CHECK_THAT(says("\"secret\"secret,1,2,no\n"), ContainsSubstring("after a closing quote"));
}

TEST_CASE("table: columns are chosen by patterns, the first that fits, and by name within one",
          "[data_source]") {
  const TableFile file("b_2,id,x,a_1,b_1,y\n1,2,3,4,5,0\n");
  const Value columns = list({column("b_1", "drop"), column("*_*", "number", {{"fill", 0, {}}}),
                              column("x", "number", {{"fill", 0, {}}}), column("i*", "drop")});
  const Value::Object params{{"columns", columns, {}}, {"classes", 2, {}}};
  CHECK(features(file.read(params)) == Floats{4, 1, 3});
  // In a file with another order, and without an unused column, the rows are the same.
  file.replace("x,y,a_1,b_2,id\n3,0,4,1,2\n");
  CHECK(features(file.read(params)) == Floats{4, 1, 3});
}

TEST_CASE("table: columns that nobody names, and names that nothing has", "[data_source]") {
  const TableFile file("age,weight,y\n1,2,0\n");
  const auto says = [&](Value columns) {
    return message<ConfigError>([&] { file.read({{"columns", std::move(columns), {}}}); });
  };
  CHECK_THAT(says(list({column("age", "number")})),
             ContainsSubstring("no entry names the column 'weight'"));
  CHECK_THAT(says(list({column("age", "number"), column("weihgt", "number"), column("*", "drop")})),
             ContainsSubstring("did you mean 'weight'?"));
  CHECK_THAT(says(list({column("y", "number"), column("*", "number")})),
             ContainsSubstring("'y' is the target"));
  CHECK_THAT(says(list({column("age", "number"), column("*", "drop"), column("weight", "number")})),
             ContainsSubstring("'weight': earlier entries name all the columns that it matches"));
  const TableFile accents("gr\u00f6\u00dfe,y\n1,0\n");
  CHECK_THAT(message<ConfigError>([&] {
               accents.read({{"columns", list({column("y", "number")}), {}}});
             }),
             ContainsSubstring("'gr\u00f6\u00dfe'"));
  CHECK_THROWS_WITH(file.read({{"columns", list({column("*", "drop")}), {}}}),
                    ContainsSubstring("no column that is a feature"));
}

TEST_CASE("table: declarations that contradict themselves", "[data_source]") {
  const TableFile file("a,y\n1,0\n");
  const auto says = [&](const std::string& type, Value::Object keys, const std::string& what) {
    const Value columns = list({column("a", type, std::move(keys))});
    CHECK_THAT(message<ConfigError>([&] {
                 file.open({{"columns", columns, {}}});
               }),
               ContainsSubstring(what));
  };
  says("number", {{"min", 1, {}}, {"max", 1, {}}}, "min is not below max");
  says("number", {{"min", 1, {}}, {"fill", 0, {}}}, "fill is 0, which is outside");
  says("number", {{"fill", 1e39, {}}}, "beyond float32");
  says("number", {{"unit", true, {}}}, "needs both");
  says("number", {{"indicator", true, {}}}, "indicator needs fill");
  says("number", {{"values", list({"a"}), {}}}, "values does not apply to a column of type number");
  says("category", {}, "a category needs its values");
  says("category", {{"values", list({"a", "a"}), {}}}, "'a' is there twice");
  says("category", {{"values", list({"a"}), {}}, {"fill", 1, {}}}, "fill does not apply");
  says("category", {{"values", list({"a"}), {}}, {"indicator", true, {}}}, "indicator needs other");
  says("boolean", {{"values", list({"a"}), {}}}, "are two");
  says("boolean", {{"fill", 2, {}}}, "expected 0 (false) to 1 (true)");
  says("drop", {{"fill", 0, {}}}, "fill does not apply to a column of type drop");
  says("nmuber", {}, "did you mean 'number'?");
  const auto target = [&](Value::Object keys, const std::string& what) {
    CHECK_THAT(message<ConfigError>([&] { file.open(keys); }), ContainsSubstring(what));
  };
  target({{"labels", list({"a", "a"}), {}}}, "'a' is there twice");
  target({{"labels", list({"a", "b"}), {}}, {"classes", 3, {}}}, "classes is 3");
  target({{"labels", list({"a", "b"}), {}}, {"task", "regression", {}}}, "task is regression");
  target({{"labels", list({"yes", "no"}), {}}, {"other_label", "yess", {}}}, "did you mean 'yes'?");
  target({{"labels", list({"a", "b"}), {}}, {"target_fill", 0, {}}}, "the key is other_label");
  target({{"target_fill", 0.5, {}}}, "target_fill is 0.5, expected a class index");
  target({{"decimal", ",", {}}}, "cut in two");
}

TEST_CASE("table: a date becomes the parts that are declared", "[data_source]") {
  const TableFile file("at,y\n29.02.2024,0\n1.1.2023,1\n31.12.2025,0\n");
  const auto date = [](Value::Object keys) {
    return list({column("at", "date", std::move(keys))});
  };
  const Value::Object whole{{"format", "%d.%m.%Y", {}},
                            {"parts", list({"month", "days", "weekday", "day"}), {}},
                            {"since", "2024-02-28", {}},
                            {"min", -100, {}},
                            {"max", 300, {}},
                            {"other", true, {}}};
  const auto source = file.open({{"columns", date(whole), {}}});
  const Names names = source->info().feature_names;
  REQUIRE(names.size() == 12 + 1 + 7 + 1 + 1);
  CHECK(Names(names.begin(), names.begin() + 2) == Names{"at.month=1", "at.month=2"});
  CHECK(Names(names.begin() + 12, names.begin() + 15) ==
        Names{"at.days", "at.weekday=Mon", "at.weekday=Tue"});
  CHECK(Names(names.end() - 2, names.end()) == Names{"at.day", "at=(other)"});
  const auto row = [&](int month, float days, int weekday, float day) {
    Floats all(22, 0.0f);
    all[month - 1] = 1;
    all[12] = days;
    all[13 + weekday - 1] = 1;
    all[20] = day;
    return all;
  };
  Floats expected = row(2, 1, 4, 28.0f / 30);  // a Thursday
  for (const Floats& more : {row(1, -100, 7, 0), row(12, 300, 3, 1)})
    expected.insert(expected.end(), more.begin(), more.end());
  CHECK(features(source->read(Split::train)) == expected);

  // Invalid days: not in the calendar, in another format, missing, declared as missing.
  for (const char* const bad : {"29.02.2023", "31.04.2024", "0.1.2024", "1.13.2024", "1.1.24",
                                "2024-01-01", "1.1.2024 ", "1.1.2024x", "1.1.", "", "NA",
                                "99.99.9999", "-1.1.2024", "1.1.1900", "31.12.1899", "1.1.2101"}) {
    const TableFile one(std::string("at,y\n") + bad + ",0\n");
    Value::Object params{
        {"columns", date(whole), {}}, {"classes", 2, {}}, {"missing", list({"", "1.1.1900"}), {}}};
    Floats other(22, 0.0f);
    other[21] = 1;
    CHECK(features(one.read(params)) == other);
    params[0].value = date({{"format", "%d.%m.%Y", {}}, {"parts", list({"day"}), {}}});
    CHECK_THAT(message<privgrad::IoError>([&] { one.read(params); }),
               ContainsSubstring("is not a date of the form '%d.%m.%Y' from 1900 to 2100; say in "
                                 "columns what such a row becomes (other: true)"));
  }
  // A time of day is read and ignored.
  const TableFile times("at,y\n2024-01-01T23:59:60.25,0\n2024-01-01T9:00:00.0,1\n");
  CHECK(features(times.read({{"columns",
                              date({{"format", "%Y-%m-%dT%H:%M:%S.%f", {}},
                                    {"parts", list({"days"}), {}},
                                    {"since", "2023-12-31", {}}}),
                              {}}})) == Floats{1, 1});
}

TEST_CASE("table: the years of a date column are those to which it is declared", "[data_source]") {
  const TableFile file(
      "at,y\n1849-12-31,0\n1850-01-01,0\n1900-01-01,0\n2100-12-31,0\n2101-01-01,0\n"
      "2150-12-31,0\n");
  const auto others = [&](const Value::Object& keys) {
    Value::Object all = keys;
    all.push_back({"other", true, {}});
    all.push_back({"min", 0, {}});
    all.push_back({"max", 1, {}});
    all.push_back({"parts", list({"days"}), {}});
    const Floats both = features(
        file.read({{"classes", 2, {}}, {"columns", list({column("at", "date", all)}), {}}}));
    Floats other;
    for (std::size_t i = 1; i < both.size(); i += 2) other.push_back(both[i]);
    return other;
  };
  CHECK(others({{"since", "2000-01-01", {}}}) == Floats{1, 1, 0, 0, 1, 1});
  CHECK(others({{"since", "1850-06-01", {}}}) == Floats{1, 0, 0, 0, 1, 1});
  CHECK(others({{"since", "2150-01-01", {}}}) == Floats{1, 1, 0, 0, 0, 0});
}

TEST_CASE("table: declarations of dates that contradict themselves", "[data_source]") {
  const TableFile file("a,y\n2024-01-01,0\n");
  const auto says = [&](Value::Object keys, const std::string& what) {
    const Value columns = list({column("a", "date", std::move(keys))});
    CHECK_THAT(message<ConfigError>([&] {
                 file.open({{"columns", columns, {}}});
               }),
               ContainsSubstring(what));
  };
  const Value day = list({"day"});
  says({}, "a date needs parts");
  says({{"parts", list({"days"}), {}}}, "needs the day from which it counts");
  says({{"parts", list({"days"}), {}}, {"since", "1.1.2024", {}}}, "expected a day as 2000-01-31");
  says({{"parts", day, {}}, {"since", "2024-01-01", {}}}, "of the part days, which parts lacks");
  says({{"parts", list({"day", "day"}), {}}}, "the part day is there twice");
  says({{"parts", day, {}}, {"format", "%Y-%m", {}}}, "format has no %d");
  says({{"parts", day, {}}, {"format", "%Y-%m-%d %d", {}}}, "format has %d twice");
  says({{"parts", day, {}}, {"format", "%Y-%b-%d", {}}}, "a % before none of");
  says({{"parts", day, {}}, {"format", "%Y-%m-%d%", {}}}, "a % before none of");
  says({{"parts", day, {}}, {"fill", 0, {}}}, "fill does not apply to a column of type date");
  says({{"parts", list({"hour"}), {}}}, "allowed are days, day, month, weekday");
}

TEST_CASE("table: targets that are not a number become the declared one", "[data_source]") {
  const TableFile file("a,y\n1,2.5\n1,\n1,inf\n");
  const auto source =
      file.open({{"task", "regression", {}},
                 {"target_fill", -1, {}},
                 {"row", "line", {}},
                 {"malformed", "fill", {}},
                 {"columns", list({column("a", "number", {{"fill", 0, {}}})}), {}}});
  CHECK(source->info().unaccounted.empty());
  CHECK(targets(source->read(Split::train)) == Floats{2.5f, -1, -1});
  file.replace("a,y\n1,2\n1,3\n1,-1\n1,x\n");
  CHECK(targets(file.read({{"classes", 3, {}}, {"target_fill", 1, {}}})) == Floats{2, 1, 1, 1});
}

TEST_CASE("table: numbers with commas, blanks, other quotes, comments, missing by number",
          "[data_source]") {
  const auto numbers = [](const std::string& text, Value::Object extra) {
    extra.push_back({"target", "0", {}});
    extra.push_back({"header", false, {}});
    extra.push_back({"task", "regression", {}});
    return features(TableFile(text).read(std::move(extra)));
  };
  CHECK(numbers("0;1,5;-2,25e1\n", {{"delimiter", ";", {}}, {"decimal", ",", {}}}) ==
        Floats{1.5f, -22.5f});
  CHECK(numbers("0 , 1,\t2 \n", {{"trim", true, {}}}) == Floats{1, 2});
  CHECK(numbers("0 , \"1\" , 2\n", {{"trim", true, {}}}) == Floats{1, 2});
  CHECK(numbers("'0','1',2\n", {{"quote", "'", {}}}) == Floats{1, 2});
  CHECK(numbers("# a\n0,1\n#\n0,2\n# b", {{"comment", "#", {}}}) == Floats{1, 2});
  CHECK(numbers("0,+1,.5\n", {}) == Floats{1, 0.5f});
  CHECK(
      numbers("0,-999,1\n", {{"missing", list({"-999"}), {}},
                             {"columns", list({column("*", "number", {{"fill", 7, {}}})}), {}}}) ==
      Floats{7, 1});
  // A comma is a decimal point only if declared, and then a point is not.
  const TableFile mixed("0;1.5\n");
  CHECK_THROWS_WITH(mixed.read({{"target", "0", {}},
                                {"header", false, {}},
                                {"task", "regression", {}},
                                {"delimiter", ";", {}},
                                {"decimal", ",", {}}}),
                    ContainsSubstring("column 1 is not a finite number"));
}

TEST_CASE("table: a quote without meaning is a character", "[data_source]") {
  const TableFile file("a,y\n5\",0\n\"x,1\n");
  CHECK(targets(file.read({{"quote", "none", {}},
                           {"columns", list({column("a", "number", {{"fill", 0, {}}})}), {}}})) ==
        Floats{0, 1});
}

TEST_CASE("table: compressed files are read, and what swells beyond reason is not",
          "[data_source]") {
  const std::string text = "a,b,y\n1,2,0\n3,4,1\n";
  for (const std::string& packed :
       {gzip(text), zstd(text), gzip(text.substr(0, 7)) + gzip(text.substr(7)),
        zstd(text.substr(0, 7)) + zstd(text.substr(7))}) {
    CHECK(features(TableFile(packed).read()) == Floats{1, 2, 3, 4});
  }
  for (const std::string& packed : {gzip(text), zstd(text)}) {
    const TableFile file(packed.substr(0, packed.size() - 2));
    CHECK_THROWS_WITH(file.read(), ContainsSubstring("is truncated"));
    file.replace(packed + "more");
    CHECK_THROWS_AS(file.read(), privgrad::IoError);
  }
  std::string swelling = "a,y\n";
  while (swelling.size() < (std::size_t{1} << 24) + (2u << 20)) swelling += "0,0\n0,1\n";
  for (const std::string& packed : {gzip(swelling), zstd(swelling)}) {
    const TableFile file(packed);
    CHECK_THROWS_WITH(file.read(),
                      ContainsSubstring("is oversized") && ContainsSubstring("once decompressed"));
  }
  // If no row may end a run, even a file that expands only because of a single row is accepted.
  const std::string swollen =
      "age,sex,smokes,notes,y\n31,m,1,,yes\n" + std::string(std::size_t{48} << 20, 'x') + "\n";
  for (const std::string& packed : {gzip(swollen), zstd(swollen)})
    CHECK(TableFile(packed).read(declared()).rows() == 2);
}

TEST_CASE("table: the forms of quotes, across any boundary of what is read ahead",
          "[data_source]") {
  // Fields with delimiters, doubled quotes and line ends, shifted by one byte each time, so that
  // the boundary of a buffer (1 MiB) falls on each of their bytes.
  const std::string odd = "\"a,\"\"b\"\"\r\nc\"";
  const Value columns = list(
      {column("k", "category", {{"values", list({"a,\"b\"\r\nc"}), {}}}), column("*", "drop")});
  for (std::size_t shift = 0; shift < 24; ++shift) {
    std::string text = "k,pad,y\r\n";
    text += odd + "," + std::string((std::size_t{1} << 20) - 40 - shift, 'x') + ",0\r\n";
    text += odd + ",,1\r\n";
    const Dataset data = TableFile(text).read({{"columns", columns, {}}, {"classes", 2, {}}});
    CHECK(features(data) == Floats{1, 1});
    CHECK(targets(data) == Floats{0, 1});
  }
}

TEST_CASE("table: a split sends each row to a side that no other row changes", "[data_source]") {
  const std::string head = "id,a,y\n";
  std::vector<std::string> rows;
  for (int i = 0; i < 400; ++i)
    rows.push_back(std::to_string(i % 100) + "," + std::to_string(i) + "," + std::to_string(i % 2) +
                   "\n");
  const auto sides = [&](const std::vector<std::string>& some, Value split,
                         const std::string& header = "id,a,y\n") {
    std::string text = header;
    for (const std::string& row : some) text += row;
    const TableFile file(text);
    const auto source = file.open({{"split", split, {}}, {"classes", 2, {}}});
    std::map<float, bool> is_test;  // by `a`, which is unique for each row
    for (const Split side : {Split::train, Split::test}) {
      Dataset data = source->read(side);
      for (std::size_t i = 0; i < data.rows(); ++i)
        is_test[data.features()[2 * i + 1]] = side == Split::test;
    }
    REQUIRE(is_test.size() == some.size());
    return is_test;
  };
  const Value by_row = object({{"test", 0.2, {}}});
  const auto all = sides(rows, by_row);
  const auto tests = std::count_if(all.begin(), all.end(), [](auto& x) { return x.second; });
  // 80 are expected; seven standard deviations of the binomial distribution (8) are below 56.
  CHECK(std::abs(tests - 80) < 56);
  SECTION("rows that go or come") {
    for (const std::size_t gone : {0u, 17u, 399u}) {
      std::vector<std::string> others = rows;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(gone));
      for (const auto& [row, side] : sides(others, by_row)) CHECK(all.at(row) == side);
    }
  }
  SECTION("their order") {
    std::vector<std::string> turned(rows.rbegin(), rows.rend());
    CHECK(sides(turned, by_row) == all);
  }
  SECTION("another seed is another split, and a share that grows keeps test rows") {
    CHECK(sides(rows, object({{"test", 0.2, {}}, {"seed", 2, {}}})) != all);
    for (const auto& [row, side] : sides(rows, object({{"test", 0.5, {}}})))
      CHECK((!all.at(row) || side));
  }
  SECTION("by a column, its rows stay together") {
    const auto by_id = sides(rows, object({{"test", 0.3, {}}, {"by", "id", {}}}));
    for (const auto& [row, side] : by_id) CHECK(side == by_id.at(std::fmod(row, 100.0f)));
    CHECK_THROWS_WITH(
        sides(rows, object({{"test", 0.3, {}}, {"by", "idd", {}}})),
        ContainsSubstring("split.by is 'idd'") && ContainsSubstring("did you mean 'id'?"));
  }
}

TEST_CASE("table: the split is of what stands in a row, not of how it is written",
          "[data_source]") {
  const Value columns = list({column("a", "number", {{"fill", 0, {}}}), column("*", "drop")});
  const auto test_rows = [&](const std::string& text) {
    return TableFile(text)
        .open({{"split", object({{"test", 0.5, {}}}), {}},
               {"columns", columns, {}},
               {"classes", 2, {}}})
        ->info()
        .test_rows;
  };
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    const std::size_t plain = test_rows("a,b,y\n" + n + ",x,1\n");
    CHECK(test_rows("a,b,y\r\n\"" + n + "\",\"x\",1\r\n") == plain);
    CHECK(test_rows("y,b,a\n1,x," + n + "\n") == plain);
  }
}

TEST_CASE("table: remarks count all rows, of both sides", "[data_source]") {
  const TableFile file("a,y\n1,0\nx,1\n3,0\ny,1\nz,0\n");
  const auto remarks =
      file.open({{"split", object({{"test", 0.5, {}}}), {}},
                 {"columns", list({column("a", "number", {{"fill", 0, {}}})}), {}}})
          ->info()
          .remarks;
  REQUIRE(remarks.size() == 1);
  CHECK_THAT(remarks[0], ContainsSubstring("'a': 3 of 5 rows have no valid value"));
}

TEST_CASE("table: where a split moves rows, a changed row is known to change sides",
          "[data_source]") {
  const TableFile file("a,y\n1,0\n2,1\n3,0\n4,1\n");
  CHECK(file.open({{"split", object({{"test", 0.5, {}}}), {}}})->info().rows_chosen_by_value);
  CHECK_FALSE(file.open()->info().rows_chosen_by_value);
  CHECK_THROWS_WITH(
      file.open({{"split", object({{"test", 0.5, {}}}), {}}, {"test", file.path.string(), {}}}),
      ContainsSubstring("test rows are in a table of their own"));
}

}  // namespace data_sources_table_test
