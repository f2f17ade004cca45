// The definition of a row in a CSV file: one record, which no other record affects.
#include <functional>
#include <random>

#include "data_sources_files.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/streamed_rows.hpp"

namespace data_sources_records_test {

using privgrad::DataSource;
using privgrad::Split;
using privgrad::Value;

namespace {

using Floats = std::vector<float>;
/// A row is its features followed by its target.
using Rows = std::vector<Floats>;
using Texts = std::vector<std::string>;

const std::string kHeader = "age,note,y\n";
/// The values for a row of empty fields: the fill, and the first label.
const Floats kFilled = {40, 0};
constexpr std::size_t kMostRowBytes = std::size_t{1} << 24;

Value column(const std::string& name, const std::string& type, Value::Object more = {}) {
  Value value(std::move(more));
  value.set("name", name);
  value.set("type", type);
  return value;
}

/// Opens the file with these parameters in addition to its declarations.
privgrad::ComponentPtr<DataSource> open(const std::filesystem::path& file, Value::Object more) {
  Value params(std::move(more));
  params.set("train", file.string());
  params.set("target", "y");
  params.set("labels", Value(Value::List{"no", "yes"}));
  params.set("other_label", "no");
  params.set("columns", Value(Value::List{column("age", "number", {{"fill", 40, {}}}),
                                          column("note", "text")}));
  return house().create<DataSource>("csv", params);
}

Value::Object filled(const std::string& row) {
  return {{"row", row, {}}, {"malformed", "fill", {}}};
}

Rows rows_of(std::span<const float> features, std::span<const float> targets) {
  Rows rows;
  for (std::size_t i = 0; i < targets.size(); ++i) rows.push_back({features[i], targets[i]});
  return rows;
}

/// Returns the rows of a file with this text; the same when streamed.
Rows rows(const std::string& text, const Value::Object& more) {
  const TempDir dir;
  const std::filesystem::path file = dir.path() / "table.csv";
  write_file(file, text);
  privgrad::Dataset data = open(file, more)->read(Split::train);
  Rows read = rows_of(data.features(), data.targets());
  Rows streamed;
  const auto source = open(file, more);
  dynamic_cast<privgrad::StreamedRows&>(*source).stream([&](const privgrad::RowBlock& block) {
    for (Floats& row : rows_of(std::get<std::span<const float>>(block.features), block.targets))
      streamed.push_back(std::move(row));
  });
  CHECK(streamed == read);
  return read;
}

std::string joined(const Texts& records) {
  std::string text = kHeader;
  for (const std::string& record : records) text += record + "\n";
  return text;
}

/// Returns the value in quotes, with inner quotes doubled, as in RFC 4180.
std::string quoted(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + '"';
}

using Coins = std::mt19937_64;

/// Returns a text mostly of characters with a special meaning.
std::string wild(Coins& coins, const std::string& alphabet, std::size_t most) {
  std::string text(coins() % (most + 1), ' ');
  for (char& c : text) c = alphabet[coins() % alphabet.size()];
  return text;
}

/// Returns a record of any bytes except LF.
std::string any_line(Coins& coins) { return wild(coins, "\"\",,\r1a \xff", 12); }

/// Returns a record as a program would write it, with any values.
std::string written(Coins& coins) {
  return std::to_string(coins() % 90) + "," + quoted(wild(coins, "\"\",\n\r1a", 12)) + "," +
         quoted(wild(coins, "\"\nyes", 3));
}

/// Returns any bytes with an even number of quotes, an odd number of them before each LF.
std::string closed(Coins& coins) {
  std::string text;
  bool is_inside = false;
  for (const char c : wild(coins, "\"\"\n\n,,\r1a", 14)) {
    is_inside = is_inside != (c == '"');
    if (c != '\n' || is_inside) text += c;
  }
  return is_inside ? text + '"' : text;
}

}  // namespace

TEST_CASE("records: a record of several lines is one row", "[data_source]") {
  const std::string text =
      "age,note,y\n30,\"a\nb\",yes\n31,\"\n\n\"\"\n\",no\r\n32,c,\"yes\"\n33,\"\r\n\",yes";
  const Rows expected = {{30, 1}, {31, 0}, {32, 1}, {33, 1}};
  CHECK(rows(text, {}) == expected);
  CHECK(rows(text, {{"row", "record", {}}}) == expected);
  CHECK(rows(text, filled("record")) == expected);
  // Read as lines, these are rows of empty fields: no quote is closed, and each line counts.
  const Rows lines = rows(text, filled("line"));
  CHECK(lines ==
        Rows{kFilled, kFilled, kFilled, kFilled, kFilled, kFilled, {32, 1}, kFilled, kFilled});
}

TEST_CASE("records: what a record holds decides about its own row alone", "[data_source]") {
  struct Kind {
    std::string row;
    std::function<std::string(Coins&)> record;
  };
  const auto [row, record] =
      GENERATE(Kind{"line", any_line}, Kind{"line", [](Coins&) { return std::string("1,\"a"); }},
               Kind{"record", written}, Kind{"record", closed});
  CAPTURE(row);
  Coins coins(5);
  for (int trial = 0; trial < 300; ++trial) {
    Texts records(3 + coins() % 4);
    for (std::string& one : records) one = record(coins);
    const Rows before = rows(joined(records), filled(row));
    REQUIRE(before.size() == records.size());
    const std::size_t place = coins() % records.size();
    // A record with another content.
    Texts changed = records;
    changed[place] = record(coins);
    CAPTURE(joined(records), joined(changed));
    Rows after = rows(joined(changed), filled(row));
    REQUIRE(after.size() == before.size());
    after[place] = before[place];
    CHECK(after == before);
    // One record fewer.
    Texts less = records;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(place));
    Rows rest = before;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(place));
    CHECK(rows(joined(less), filled(row)) == rest);
  }
}

TEST_CASE("records: the same bytes are two lines and one record, so that this is declared",
          "[data_source]") {
  const std::string text = kHeader + "30,\"a,yes\n31,b\",yes\n32,c,yes\n";
  CHECK(rows(text, filled("line")) == Rows{kFilled, {kFilled}, {32, 1}});
  CHECK(rows(text, filled("record")) == Rows{{30, 1}, {32, 1}});
  const TempDir dir;
  CHECK_THROWS_WITH(open(dir.path() / "table.csv", {{"malformed", "fill", {}}}),
                    ContainsSubstring("row does not say where a row ends; say row: line if no "
                                      "value in the file has a line end, or row: record"));
}

TEST_CASE("records: one that is longer than 16 MiB is one row, wherever its lines end",
          "[data_source]") {
  const std::string next = "\n32,c,yes\n";
  // Text is read ahead in units of a MiB: a long record of 2^20 bytes begins and ends with such a
  // unit.
  const std::size_t least = (kHeader + "30,\"\",yes\n").size();
  for (const std::size_t bytes : {least, least + 1000, std::size_t{1} << 20}) {
    const std::string begin = kHeader + "30," + quoted(std::string(bytes - least, 'x')) + ",yes\n";
    const auto of = [&](const std::string& record) {
      Rows all = rows(begin + record + next, filled("record"));
      REQUIRE(all.size() == 3);
      CHECK(all.front() == Floats{30, 1});
      CHECK(all.back() == Floats{32, 1});
      return all[1];
    };
    const std::string longest = "31,\"" + std::string(kMostRowBytes - 9, '\n') + "\",yes";
    REQUIRE(longest.size() == kMostRowBytes);
    CHECK(of(longest) == Floats{31, 1});
    CHECK(of(longest + "\r") == Floats{31, 1});
    CHECK(of("3" + longest) == kFilled);
    CHECK(of("3" + longest + "\r") == kFilled);
    CHECK(of("31,\"" + std::string(3 * kMostRowBytes, '\n') + "\",yes") == kFilled);
  }
}

TEST_CASE("records: a quote that is never closed is one row up to the end of the file",
          "[data_source]") {
  for (const std::string& rest : {std::string("31,b,yes\n"), std::string(3 << 20, '\n')}) {
    CHECK(rows(kHeader + "30,a,yes\n30,\"a,yes\n" + rest, filled("record")) ==
          Rows{{30, 1}, kFilled});
  }
}

TEST_CASE("records: where malformed ones are errors, each is named by its line", "[data_source]") {
  const auto says = [](const std::string& text, const std::string& row, const std::string& what) {
    CHECK_THROWS_WITH(rows(kHeader + text, {{"row", row, {}}}), ContainsSubstring(what));
  };
  says("30,\"a\nb\",yes\n", "line",
       "table.csv:2:4: the quote that opens here is not closed on its line");
  says("30,\"a\nb\",yes\n31,\"\n\n", "record",
       "table.csv:4:4: the quote that opens here is never closed");
  says("30,\"a\nb\",yes\n31\n", "record", "table.csv:4:1: the row has 1 field(s), expected 3");
}

}  // namespace data_sources_records_test
