#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <random>

#include "manifest_fixture.hpp"
#include "trials.hpp"

using namespace privgrad;
using namespace privgrad::core;

namespace {

/// Returns "LINE:COLUMN where what" of every problem.
std::vector<std::string> problems_of(const std::string& text) {
  std::vector<Problem> problems;
  parse_yaml(text, problems);
  std::vector<std::string> lines;
  for (const Problem& p : problems) {
    lines.push_back(std::to_string(p.mark.line) + ":" + std::to_string(p.mark.column) + " " +
                    p.where + (p.where.empty() ? "" : " ") + p.what);
  }
  return lines;
}

Value parsed(const std::string& text) {
  std::vector<Problem> problems;
  const std::optional<Value> value = parse_yaml(text, problems);
  for (const Problem& problem : problems) FAIL_CHECK(problem.where + " " + problem.what);
  return value.value();
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("plain scalars follow the core schema of YAML 1.2", "[yaml]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::pair<const char*, Value> cases[] = {
      {"null", {}},
      {"~", {}},
      {"true", true},
      {"False", false},
      {"0", 0},
      {"-12", -12},
      {"+7", 7},
      {"010", 10},  // decimal: octal is 0o10
      {"0o10", 8},
      {"0xff", 255},
      {"9223372036854775807", std::numeric_limits<std::int64_t>::max()},
      {"-9223372036854775808", std::numeric_limits<std::int64_t>::min()},
      {"1.", 1.0},
      {".5", 0.5},
      {"-.5", -0.5},
      {"+0.25", 0.25},
      {"1e-8", 1e-8},
      {"1E3", 1e3},
      {"2.5e+2", 250.0},
      {".inf", infinity},
      {"-.INF", -infinity},
      {".nan", std::nan("")},
      {"yes", "yes"},
      {"No", "No"},
      {"on", "on"},
      {"off", "off"},
      {"tRUE", "tRUE"},
      {"1_000", "1_000"},
      {"1:30", "1:30"},
      {"0b1", "0b1"},
      {"0x", "0x"},
      {"0xg", "0xg"},
      {"0o8", "0o8"},
      {"1e", "1e"},
      {"1e+", "1e+"},
      {".", "."},
      {"-", "-"},
      {"+", "+"},
      {"inf", "inf"},
      {"nan", "nan"},
      {"1.2.3", "1.2.3"},
      {"'1'", "1"},
      {"\"true\"", "true"},
      {"''", ""},
      {"|\n  1\n", "1\n"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    const std::string line = text == std::string("-") ? "[\"-\"]" : "[" + std::string(text) + "]";
    // Block scalars, and signs by themselves, have a different meaning inside brackets.
    const Value value =
        text[0] == '|' ? parsed(text) : std::get<Value::List>(parsed(line).data()).at(0);
    CHECK(same(value, expected));
  }
}

TEST_CASE("numbers that do not fit are refused, not rounded", "[yaml]") {
  CHECK(problems_of("a: 9223372036854775808") ==
        Lines{"1:4 a is 9223372036854775808, which does not fit a 64-bit integer"});
  CHECK(problems_of("a: [1e999, -0x1, 0xfffffffffffffffff]") ==
        Lines{"1:5 a.0 is 1e999, which does not fit a double-precision real",
              "1:18 a.2 is 0xfffffffffffffffff, which does not fit a 64-bit integer"});
  CHECK(problems_of("a: 1e-999").size() == 1);
}

TEST_CASE("marks count characters from 1", "[yaml]") {
  const Value value =
      parsed("\xef\xbb\xbf# \xc3\xa9\na:\n  '\xe2\x82\xac\xf0\x9f\x98\x80': {b: 2}\r\nc: 1\n");
  const Value& inner = *value.find("a");
  CHECK(inner.mark.line == 3);
  CHECK(inner.mark.column == 3);
  const Value& b = std::get<Value::Object>(inner.data()).at(0).value;
  CHECK(b.find("b")->mark.column == 13);
  CHECK(value.find("c")->mark.line == 4);
}

TEST_CASE("what manifests do not need is refused with its place", "[yaml]") {
  CHECK(problems_of("a: &x 1\nb: *x\n") ==
        Lines{"1:4 a has an anchor; anchors are not allowed",
              "2:4 b is an alias; aliases are not allowed, write the value itself"});
  CHECK(problems_of("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n").size() == 7);
  CHECK(problems_of("a: !!python/object:os.system [ls]\n") ==
        Lines{"1:4 a has a tag; tags are not allowed, quote what is meant as text"});
  CHECK(problems_of("<<: {a: 1}\n") ==
        Lines{"1:1 merge keys (<<) are not allowed; write the members themselves"});
  CHECK(problems_of("a: 1\n---\nb: 2\n") ==
        Lines{"2:1 a second document begins here; a file holds one document"});
  CHECK(problems_of("? [1, 2]\n: 3\n") == Lines{"1:3 a key must be a name here"});
  CHECK(problems_of("? {a: {b: 1}}\n: {c: [2]}\nd: 1\n") == Lines{"1:3 a key must be a name here"});
  CHECK(problems_of("'': 3\n") == Lines{"1:1 a key is empty"});
  CHECK(problems_of("o:\n  a: 1\n  b: {a: 1, c: 2, a: 3}\n  a: 2\n") ==
        Lines{"3:19 o.b.a is given twice; the first is at line 3, column 7",
              "4:3 o.a is given twice; the first is at line 2, column 3"});
  CHECK(problems_of("a: '\\0'\n").empty());
  CHECK(problems_of("a: \"x\\0y\"\n") == Lines{"1:4 a contains the control character U+0000"});
}

TEST_CASE("a text that cannot be read says where and why", "[yaml]") {
  CHECK(problems_of("") == Lines{"1:1 the file is empty"});
  CHECK(problems_of("# nothing\n\n") == Lines{"1:1 the file is empty"});
  CHECK(problems_of("a: [1, 2\nb: 3\n") ==
        Lines{"2:2 this is not valid YAML: did not find expected ',' or ']' while parsing a flow "
              "sequence"});
  CHECK(problems_of("a: 1\n b: 2\n").at(0).starts_with("2:3 this is not valid YAML: "));
  CHECK(problems_of("a:\n\t- 1\n").at(0).starts_with("2:1 this is not valid YAML: "));
  CHECK(problems_of("a: 'open\n").at(0).starts_with("2:1 this is not valid YAML: "));
  CHECK(problems_of("a: 1\nb: \xff\n") == Lines{"2:4 the file is not UTF-8 (byte 0xff)"});
  CHECK(problems_of("\xc3\xa9 \xc0\x80") == Lines{"1:3 the file is not UTF-8 (byte 0xc0)"});
  CHECK(problems_of("\xed\xa0\x80") == Lines{"1:1 the file is not UTF-8 (byte 0xed)"});
  CHECK(problems_of("\xe0\x80\xaf") == Lines{"1:1 the file is not UTF-8 (byte 0xe0)"});
  CHECK(problems_of("a: \xe2\x82") == Lines{"1:4 the file is not UTF-8 (byte 0xe2)"});
  CHECK(problems_of(std::string("a: 1\0", 5)) ==
        Lines{"1:5 the file contains the control character U+0000"});
  CHECK(problems_of("a: \x1b[31m") == Lines{"1:4 the file contains the control character U+001b"});
  CHECK(problems_of(std::string("\xff\xfe"
                                "a\0",
                                4)) == Lines{"1:1 the file is not UTF-8 (byte 0xff)"});
}

TEST_CASE("the limits hold, and hostile texts cost little", "[yaml]") {
  const auto repeat = [](const std::string& text, std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += text;
    return out;
  };
  const auto deep = [&](int depth) {
    const auto count = static_cast<std::size_t>(depth);
    return repeat("[", count) + repeat("]", count);
  };
  CHECK(problems_of(deep(64)).empty());
  CHECK(problems_of(deep(65)) == Lines{"1:65 this is nested deeper than 64 levels"});
  CHECK(problems_of("[" + repeat("1,", 99'998) + "1]").empty());
  CHECK(problems_of("[" + repeat("1,", 99'999) + "1]") ==
        Lines{"1:200000 the file has more than 100000 values"});
  CHECK(problems_of("a: " + std::string(kMaxYamlBytes - 3, 'x')).empty());
  CHECK(problems_of("a: " + std::string(kMaxYamlBytes - 2, 'x')) ==
        Lines{"1:1 the file is larger than 1 MiB"});
  const std::size_t mib = kMaxYamlBytes;
  const std::clock_t begin = std::clock();
  const std::string units[] = {
      "[",   "{",  "- ",   "? ", "a: ", "&a ",   "!a ",  "*a,", "'",   "\"", "|\n",
      "-\n", "[]", "{}: ", "\t", "%",   "---\n", "a: [", "#",   "[\n", ": "};
  for (const std::string& unit : units) {
    CAPTURE(unit);
    problems_of(repeat(unit, mib / unit.size()));
  }
  // A long key must not be copied for each of many mistakes below it.
  CHECK(problems_of(std::string(1000, 'k') + ": {" + repeat("*a ,", 20'000) + "b: 1}").size() > 0);
  // This takes 0.3 s on the author's machine; a quadratic algorithm would take minutes.
  CHECK(std::clock() - begin < 20 * CLOCKS_PER_SEC);
}

TEST_CASE("writing and reading again gives the same value", "[yaml][long]") {
  // Property test: random trees of texts that look like other types, extreme reals and so on. The
  // seed is fixed; the generator's quality does not matter here.
  std::mt19937_64 random(20240601);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string pieces[] = {
      "true", "yes", "null", "~",  "1",    "1e5", ".5",  "-",   ": ", "#",  " #", "a",   " ", "'",
      "\"",   "\\",  "\n",   "\t", "[",    "]",   "{",   "}",   ",",  "&a", "*a", "!",   "|", ">",
      "%",    "@",   "`",    "<<", "0x1f", "?",   "---", "...", "=",  "é",  "😀",  "\n\n"};
  const auto text = [&] {
    std::string out;
    for (std::size_t n = below(4); n > 0; --n) out += pieces[below(std::size(pieces))];
    return out;
  };
  const auto tree = [&](auto& self, int depth) -> Value {
    switch (below(depth > 0 ? 8 : 6)) {
      case 0:
        return {};
      case 1:
        return below(2) == 0;
      case 2:
        return static_cast<std::int64_t>(random());
      case 3: {
        double real = 0.0;
        const std::uint64_t bits = random();
        std::memcpy(&real, &bits, sizeof real);
        return real;
      }
      case 4:
        return static_cast<double>(below(10)) * std::pow(10.0, static_cast<double>(below(30)));
      case 5:
        return text();
      case 6: {
        Value::List items;
        for (std::size_t n = below(4); n > 0; --n) items.push_back(self(self, depth - 1));
        return items;
      }
      default: {
        Value object{Value::Object{}};
        for (std::size_t n = below(4); n > 0; --n) {
          const std::string key = text();
          if (!key.empty() && key != "<<") object.set(key, self(self, depth - 1));
        }
        return object;
      }
    }
  };
  const int count = trials(30'000, "random trees");
  for (int i = 0; i < count; ++i) {
    Value root{Value::Object{}};
    root.set("root", tree(tree, 4));
    const std::string written = to_yaml(root);
    CAPTURE(written);
    REQUIRE(same(root, parsed(written)));
  }
}

TEST_CASE("values are written as people write them", "[yaml]") {
  CHECK(to_yaml(Value::Object{{"a", 4.0, {}},
                              {"b", 1e-8, {}},
                              {"c", "off", {}},
                              {"d", Value::List{1, 2}, {}},
                              {"e", Value::Object{}, {}},
                              {"f", "1", {}},
                              {"g", 0.1, {}},
                              {"h", Value(), {}}}) ==
        "a: 4.0\nb: 1e-08\nc: 'off'\nd: [1, 2]\ne: {}\nf: '1'\ng: 0.1\nh: null\n");
  CHECK(to_yaml(Value::List{"a\nb", "\xc3\xa9"}) == "[\"a\\nb\", \"\xc3\xa9\"]\n");
  CHECK_THROWS_AS(to_yaml(Value("\xff")), ConfigError);
}
