// Texts as tokens: the tokens of Hugging Face's library, in every format, and each row independent
// of the others.
#include <algorithm>
#include <cstddef>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "data_sources_files.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/streamed_rows.hpp"

namespace data_sources_text_test {

using nlohmann::json;
using privgrad::ConfigError;
using privgrad::DataInfo;
using privgrad::DataSource;
using privgrad::Split;
using privgrad::Value;

namespace {

using Row = std::vector<float>;
using Texts = std::vector<std::string>;

const std::filesystem::path kFixtures = kSource / "tests" / "fixtures" / "text";

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

json fixture(const std::string& name) { return json::parse(content_of(kFixtures / name)); }

/// A folder with texts and a tokenizer.
struct Place {
  TempDir dir;
  std::filesystem::path texts = dir.path() / "texts.csv";
  std::filesystem::path tokenizer = dir.path() / "tokenizer.json";

  privgrad::ComponentPtr<DataSource> open(const std::string& content, Value::Object extra) const {
    replace_file(texts, content);
    Value params(std::move(extra));
    params.set("train", texts.string());
    if (params.find("length") == nullptr) params.set("length", 6);
    return house().create<DataSource>("text", params);
  }
  /// Returns the source with this tokenizer, and one text.
  privgrad::ComponentPtr<DataSource> with(const json& made) const {
    replace_file(tokenizer, made.dump());
    return open("a\n", {{"format", "lines", {}}, {"tokenizer", tokenizer.string(), {}}});
  }
};

/// Returns each row's features and target, and checks that they are the same when streamed.
std::vector<Row> rows_of(DataSource& source) {
  privgrad::Dataset data = source.read(Split::train);
  std::vector<Row> rows;
  const std::size_t width = data.row_size();
  for (std::size_t i = 0; i < data.rows(); ++i) {
    const auto features = data.features().subspan(i * width, width);
    rows.emplace_back(features.begin(), features.end());
    rows.back().push_back(data.targets()[i]);
  }
  Row streamed;
  dynamic_cast<privgrad::StreamedRows&>(source).stream([&](const privgrad::RowBlock& block) {
    if (block.split != Split::train) return;
    const auto some = std::get<std::span<const float>>(block.features);
    streamed.insert(streamed.end(), some.begin(), some.end());
  });
  CHECK(
      std::equal(streamed.begin(), streamed.end(), data.features().begin(), data.features().end()));
  return rows;
}

std::string in_csv(const std::string& text) {
  std::string out = "\"";
  for (const char byte : text) out += byte == '"' ? "\"\"" : std::string(1, byte);
  return out + "\"\n";
}

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

Value::Object labelled(Value::Object more = {}) {
  more.push_back({"target", "stars", {}});
  more.push_back({"labels", Value::List{"bad", "good"}, {}});
  more.push_back({"other_label", "bad", {}});
  more.push_back({"malformed", "fill", {}});
  return more;
}

constexpr float kNone = -1.0f;

}  // namespace

TEST_CASE("text: tokens are those of Hugging Face's library", "[data_source]") {
  const json answers = fixture("answers.json");
  std::string table = "text,no\n";
  for (const json& text : answers["texts"]) {
    table += in_csv(from_hex(text.get<std::string>()));
    table.insert(table.size() - 1, ",1");
  }
  const auto length = answers["length"].get<std::int64_t>();
  const Place place;
  for (const char* name : {"bert", "cased", "odd", "gpt2", "prefix"}) {
    INFO(name);
    const std::string file = (kFixtures / (std::string(name) + ".json")).string();
    const auto source = place.open(table, {{"tokenizer", file, {}}, {"length", length, {}}});
    const std::vector<Row> rows = rows_of(*source);
    const json& expected = answers[name];
    REQUIRE(rows.size() == expected.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Row row = expected[i].get<Row>();
      row.resize(static_cast<std::size_t>(length), kNone);
      row.push_back(0.0f);
      INFO("text " << i << ": " << answers["texts"][i]);
      CHECK(rows[i] == row);
    }
  }
}

TEST_CASE("text: a record of each format is one example, cut or padded", "[data_source]") {
  const Place place;
  const std::vector<Row> expected = {{'h', 'i', ',', ' ', 'y', 'o', 1},
                                     {'a', '"', kNone, kNone, kNone, kNone, 0},
                                     {kNone, kNone, kNone, kNone, kNone, kNone, 0}};
  const auto csv = place.open("stars,text\ngood,\"hi, you\"\nbad,\"a\"\"\"\nunheard of,\n",
                              labelled({{"row", "record", {}}}));
  CHECK(rows_of(*csv) == expected);
  const auto jsonl = place.open(
      "{\"text\": \"hi, you\", \"stars\": \"good\", \"more\": {\"text\": 1}}\r\n"
      " {\"stars\":\"bad\",\"text\":\"\\u0061\\\"\"}\n{\"text\":\"\"}\n",
      labelled({{"format", "jsonl", {}}}));
  CHECK(rows_of(*jsonl) == expected);
  const auto lines = place.open("hi, you\na\"\n\n", {{"format", "lines", {}}});
  CHECK_FALSE(lines->info().has_targets);
  CHECK_FALSE(lines->foreseen_info()->has_targets);
  CHECK_THAT(lines->info().remarks.at(0), ContainsSubstring("each line is one example"));
  CHECK(lines->info().unaccounted == Texts{"that every row is well formed (malformed)"});
  const std::vector<Row> unlabelled = rows_of(*lines);
  REQUIRE(unlabelled.size() == 3);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(std::equal(unlabelled[i].begin(), unlabelled[i].end() - 1, expected[i].begin()));
  const Texts notes = csv->notes();
  CHECK_THAT(notes.at(0), ContainsSubstring("vocabulary: 256"));
  const auto predicted = place.open("a\n", {{"format", "lines", {}}, {"unlabelled", true, {}}});
  CHECK(predicted->info().remarks.empty());
}

TEST_CASE("text: records of one value of split.by are on one side, in every format",
          "[data_source]") {
  const Place place;
  std::string jsonl, csv = "text,stars,who\n";
  for (int i = 0; i < 60; ++i) {
    const std::string text = "row " + std::to_string(i), who = std::to_string(i % 20);
    jsonl += R"({"text": ")" + text + R"(", "stars": "good", "who": )" + who + "}\n";
    csv += text + ",good," + who + "\n";
  }
  const auto open = [&](const std::string& content, const char* format, const char* by) {
    Value split{Value::Object{}};
    split.set("test", 0.5);
    split.set("by", by);
    return place.open(
        content, labelled({{"format", format, {}}, {"row", "line", {}}, {"split", split, {}}}));
  };
  const auto source = open(jsonl, "jsonl", "who");
  const std::vector<Row> kept = rows_of(*source);
  CHECK(kept == rows_of(*open(csv, "csv", "who")));
  CHECK(kept != rows_of(*open(jsonl, "jsonl", "text")));
  CHECK(kept.size() % 3 == 0);  // the three rows of each value
  CHECK((!kept.empty() && kept.size() < 60));
  CHECK(kept.size() + source->info().test_rows == 60);

  const Value typo{Value::Object{{"test", 0.5, {}}, {"by", "whom", {}}}};
  CHECK_THROWS_WITH(
      place.open(jsonl, {{"format", "jsonl", {}}, {"unlabelled", true, {}}, {"split", typo, {}}})
          ->info(),
      ContainsSubstring(
          "texts.csv:1:1: the object has no member 'whom', which data.split.by names"));
  CHECK_THROWS_WITH(place.open("a\nb\n", {{"format", "lines", {}}, {"split", typo, {}}})->info(),
                    ContainsSubstring("data.split.by is 'whom', but no column has this name"));
}

TEST_CASE("text: no record changes another, or whether there is a run", "[data_source]") {
  const Place place;
  const Texts hostile = {"",
                         "[[[[[[",
                         "{\"text\": 3, \"stars\": \"good\"}",
                         "{\"text\": \"a\", \"text\": []}",
                         "{\"text\": \"\\ud800\", \"stars\": \"good\"}",
                         "{\"text\": \"a\", \"stars\": 1e999}",
                         "[\"text\"]",
                         "{\"text\": \"a\"} x",
                         std::string("\0\xff\xfe{\x80", 5),
                         std::string((std::size_t{1} << 24) + 9, '['),
                         std::string(1000, ',') + "\"\xc3\xef\xbb"};
  for (const char* format : {"jsonl", "lines", "csv"}) {
    const std::string kind = format;
    Value::Object params = kind == "lines" ? Value::Object{{"malformed", "fill", {}}} : labelled();
    params.push_back({"format", kind, {}});
    if (kind == "csv") params.push_back({"row", "line", {}});
    if (kind != "csv") params.push_back({"tokenizer", (kFixtures / "bert.json").string(), {}});
    const std::string header = kind == "csv" ? "text,stars\n" : "";
    const std::string first =
        kind == "jsonl" ? "{\"text\": \"the\", \"stars\": \"good\"}\n" : "the,good\n";
    const std::string last = kind == "jsonl" ? "{\"text\": \"end\"}\n" : "end,bad\n";
    const auto usual = place.open(header + first + first + last, params);
    const DataInfo info = usual->info();
    const std::vector<Row> rows = rows_of(*usual);
    for (const std::string& record : hostile) {
      INFO(format << ", " << record.substr(0, 40));
      const auto source = place.open(header + first + record + "\n" + last, params);
      const DataInfo other = source->info();
      CHECK((other.train_rows == 3 && other.unaccounted == info.unaccounted));
      const std::vector<Row> found = rows_of(*source);
      CHECK((found.front() == rows.front() && found.back() == rows.back()));
      if (kind == "jsonl")
        CHECK(
            std::all_of(found[1].begin(), found[1].end() - 1, [](float x) { return x == kNone; }));
    }
  }
  // The first bytes of a file, which belong to a row, do not determine how the other rows are read
  // either.
  for (const char* format : {"jsonl", "lines"}) {
    Value::Object params =
        std::string(format) == "lines" ? Value::Object{{"malformed", "fill", {}}} : labelled();
    params.push_back({"format", format, {}});
    const std::string row = std::string(format) == "lines" ? "end" : "{\"text\": \"end\"}";
    for (const std::string mark : {"\xff\xfe", "\xfe\xff", "\x1f\x8b", "\x28\xb5\x2f\xfd"}) {
      const auto source = place.open(mark + "\n" + row + "\n", params);
      CHECK(source->info().train_rows == 2);
    }
    const auto source = place.open("\xef\xbb\xbf" + row + "\n\xef\xbb\xbf" + row + "\n", params);
    const std::vector<Row> rows = rows_of(*source);
    CHECK((rows.size() == 2 && rows.front() == rows.back()));
  }
  const auto strict = place.open("{\"text\": \"a\"}\n{\"secret\": 1}\n", {{"format", "jsonl", {}}});
  const std::string message = io_error(place.texts, [&] { strict->info(); });
  CHECK_THAT(message, ContainsSubstring(":2:") && !ContainsSubstring("secret"));
}

TEST_CASE("text: what a tokenizer.json asks for beyond is refused by name", "[data_source]") {
  const Place place;
  const auto refused = [&](const char* base, const std::string& pointer, const json& value,
                           const std::string& named) {
    json made = fixture(base);
    made[json::json_pointer(pointer)] = value;
    INFO(pointer << " " << value);
    const std::string message = io_error(place.tokenizer, [&] { place.with(made); });
    CHECK_THAT(message, ContainsSubstring(named));
  };
  refused("bert.json", "/model/type", "Unigram", "the model Unigram");
  refused("bert.json", "/normalizer/type", "NFKC", "the normalizer NFKC");
  refused("bert.json", "/normalizer/strip", 1, "normalizer.strip");
  refused("bert.json", "/pre_tokenizer/type", "Whitespace", "the pre_tokenizer Whitespace");
  refused("bert.json", "/pre_tokenizer", nullptr, "the pre_tokenizer null");
  refused("bert.json", "/post_processor/type", "Sequence", "the post_processor Sequence");
  refused("bert.json", "/post_processor/single/0/SpecialToken/type_id", 1, "type_id");
  refused("bert.json", "/truncation/direction", "Left", "truncation.direction: \"Left\"");
  refused("bert.json", "/added_tokens/4/lstrip", true, "'[MASK]': lstrip");
  refused("bert.json", "/added_tokens/4/normalized", true, "'[MASK]': normalized");
  refused("bert.json", "/added_tokens/4/id", 7, "'[MASK]': an id that differs");
  refused("bert.json", "/model/unk_token", "[NONE]", "model.vocab lacks '[NONE]'");
  refused("bert.json", "/model/vocab/the", 5, "the number 5 twice");
  refused("bert.json", "/model/vocab/the", std::uint64_t{1} << 24, "is not a token");
  refused("bert.json", "/model/vocab", json::array(), "model.vocab is missing");
  refused("bert.json", "/model/max_input_chars_per_word", 1001,
          "max_input_chars_per_word: 1001, which is above 1000");
  json deep = json::array();
  for (int level = 0; level < 100; ++level) deep = json::array({deep});
  refused("bert.json", "/truncation/direction", deep, "nested deeper than 64 levels");
  refused("bert.json", "/more", 1, "the member more");
  refused("gpt2.json", "/model/dropout", 0.1, "model.dropout: 0.1");
  refused("gpt2.json", "/model/ignore_merges", true, "model.ignore_merges");
  refused("gpt2.json", "/model/merges/0", "a", "model.merges");
  refused("gpt2.json", "/pre_tokenizer/use_regex", false, "pre_tokenizer.use_regex");
  refused("gpt2.json", "/pre_tokenizer/type", "BertPreTokenizer", "pre_tokenizer Bert");
  CHECK_NOTHROW(place.with(fixture("bert.json")));
  json old = fixture("gpt2.json");
  old["model"].erase("type");
  for (json& merge : old["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  CHECK_NOTHROW(place.with(old));
}

TEST_CASE("text: mutated tokenizers are read or refused, nothing else", "[data_source]") {
  const Place place;
  for (const char* name : {"cased.json", "prefix.json"}) {
    fuzz(content_of(kFixtures / name), 3, 300, [&](const std::string& bytes) {
      replace_file(place.tokenizer, bytes);
      rows_of(*place.open("a caf\xc3\xa9\n",
                          {{"format", "lines", {}}, {"tokenizer", place.tokenizer.string(), {}}}));
    });
  }
}

TEST_CASE("text: declarations that contradict each other", "[data_source]") {
  const Place place;
  const auto refused = [&](Value::Object params, const std::string& named) {
    CHECK_THROWS_WITH(place.open("text,stars\na,1\n", std::move(params))->info(),
                      ContainsSubstring(named));
  };
  refused({{"format", "lines", {}}, {"target", "stars", {}}}, "plain lines have none");
  refused({{"column", "body", {}}}, "data.column: 'body': the table has no such column");
  refused({{"column", "t*", {}}}, "without *");
  refused({{"malformed", "fill", {}}}, "row: line");
  refused({{"format", "jsonl", {}}, {"malformed", "fill", {}}, {"target", "stars", {}}},
          "target_fill");
  refused({{"tokenizer", (kFixtures / "bert.json").string(), {}}, {"length", 2, {}}},
          "adds 2 tokens");
  refused({{"tokenizer_sha256", "00", {}}}, "tokenizer is missing");
  refused({{"tokenizer", (kFixtures / "bert.json").string(), {}}, {"tokenizer_sha256", "00", {}}},
          "is not the tokenizer.json with the SHA-256 00");
}

TEST_CASE("text: a word above 65536 bytes is several, at no more cost than its beginning",
          "[data_source]") {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  const std::string tokenizer = (kFixtures / "gpt2.json").string();
  const json vocabulary = fixture("gpt2.json").at("model").at("vocab");
  const Place place;
  const auto row_of = [&](const std::string& text, int length) {
    return rows_of(*place.open(text + "\n", {{"format", "lines", {}},
                                             {"tokenizer", tokenizer, {}},
                                             {"length", length, {}}}))
        .front();
  };
  // The pair at the border of two pieces does not become one token, although it does elsewhere.
  REQUIRE(row_of("re", 2)[1] == -1.0f);
  const std::string text = std::string(kPiece - 1, 'z') + "re";
  const Row row = row_of(text, 70000);
  const auto end = std::find(row.begin(), row.end(), -1.0f);
  CHECK(*(end - 1) == vocabulary.at("e").get<float>());
  CHECK(*(end - 2) == vocabulary.at("r").get<float>());
  // The first tokens depend only on the beginning of the text.
  CHECK(row_of(std::string(16 * kPiece, 'z'), 6) == row_of(std::string(kPiece, 'z'), 6));
}

}  // namespace data_sources_text_test
