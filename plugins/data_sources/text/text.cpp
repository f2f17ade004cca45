#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../csv/file_table.hpp"
#include "line_rows.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "tokenizer.hpp"

namespace {

using namespace privgrad;

/// Makes the features of a text: its tokens.
class Tokens final : public TextEncoder {
 public:
  explicit Tokens(const Params& params)
      : length_(static_cast<std::size_t>(params.integer("length"))) {
    if (params.has("tokenizer")) {
      file_ = params.path("tokenizer");
      tokenizer_ = read_tokenizer(*file_);
    }
    if (params.has("tokenizer_sha256") && params.text("tokenizer_sha256") != hash()) {
      const std::string expected =
          "the tokenizer.json with the SHA-256 " + params.text("tokenizer_sha256");
      if (file_) throw IoError(file_->string() + ": is not " + expected);
      throw ConfigError("text: tokenizer is missing: " + expected);
    }
    const std::size_t around = tokenizer_.before.size() + tokenizer_.after.size();
    if (length_ <= around)
      throw ConfigError("text: length is " + std::to_string(length_) + ", but the tokenizer adds " +
                        std::to_string(around) + " tokens to each text; use a larger length");
  }

  std::size_t length() const override { return length_; }
  void encode(std::string_view text, float* features) const override {
    tokenizer_.encode(text, {features, length_});
  }

  const std::optional<std::filesystem::path>& file() const { return file_; }
  const std::string& hash() const { return tokenizer_.sha256; }
  std::size_t vocabulary() const { return tokenizer_.size; }

 private:
  std::size_t length_;
  std::optional<std::filesystem::path> file_;
  Tokenizer tokenizer_;
};

CsvForm form_of(const Params& params) {
  const std::string& format = params.text("format");
  const bool is_unlabelled = params.boolean("unlabelled") || !params.has("target");
  if (format == "lines" && !is_unlabelled)
    throw ConfigError(
        "text: target is given, but plain lines have none; set unlabelled: true to predict them, "
        "or use format: csv or jsonl");
  CsvForm form;
  if (format == "csv") {
    form = csv_form_of("text", params);
  } else {
    form.dialect = {.row_is_line = true};
    form.fills_malformed = params.text("malformed") == "fill";
  }
  form.has_targets = !is_unlabelled;
  return form;
}

TableForm table_of(const Params& params, const CsvForm& form,
                   std::shared_ptr<const TextEncoder> tokens) {
  ColumnRule texts, others;
  texts.name = params.text("column");
  texts.type = ColumnType::text;
  texts.encoder = std::move(tokens);
  others.name = "*";
  others.type = ColumnType::drop;
  if (texts.name.find('*') != texts.name.npos)
    throw ConfigError("text: column must name one column, without *");
  TableForm table = table_form_of(form);
  table.rules = {std::move(texts), std::move(others)};
  return table;
}

/// Returns the member by which rows of objects are split; "" if there is none.
std::string split_column(const Params& params) {
  if (!params.has("split")) return "";
  const Params split = params.object("split");
  return split.has("by") ? split.text("by") : "";
}

class Text final : public FileTable {
 public:
  explicit Text(const Params& params)
      : Text(params, form_of(params), std::make_shared<const Tokens>(params)) {}

  Paths files() override {
    Paths all = FileTable::files();
    if (tokens_->file()) all.push_back(*tokens_->file());
    return all;
  }
  std::vector<std::string> notes() override {
    const std::string size = std::to_string(tokens_->vocabulary());
    return {"the tokenizer has " + size + " tokens, so the model needs vocabulary: " + size};
  }
  DataInfo info() override { return told(FileTable::info()); }
  DataInfo stream(const std::function<void(const RowBlock&)>& take) override {
    return told(FileTable::stream(take));
  }

 private:
  Text(const Params& params, const CsvForm& form, const std::shared_ptr<const Tokens>& tokens)
      : FileTable("text", params, form, table_of(params, form, tokens)),
        format_(params.text("format")),
        column_(params.text("column")),
        target_(params.has("target") ? params.text("target") : ""),
        split_by_(split_column(params)),
        trains_on_lines_(format_ == "lines" && !params.boolean("unlabelled")),
        tokens_(tokens) {}

  std::unique_ptr<TextRows> open_rows(const std::filesystem::path& file, const CsvForm& form,
                                      std::uint64_t most_bytes) const override {
    if (format_ == "csv") return FileTable::open_rows(file, form, most_bytes);
    std::vector<std::string> names{column_};
    if (form.has_targets) names.push_back(target_);
    const bool reads_split =
        format_ == "jsonl" && !split_by_.empty() && std::ranges::count(names, split_by_) == 0;
    if (reads_split) names.push_back(split_by_);
    return std::make_unique<LineRows>(file, std::move(names), format_ == "jsonl",
                                      form.fills_malformed, reads_split, most_bytes);
  }

  /// Adapts the facts: tokens have no names, and model files identify the tokenizer by its hash.
  DataInfo told(DataInfo info) const {
    info.feature_names.clear();
    if (trains_on_lines_)
      info.remarks.push_back(
          "text: each line is one example, and the guarantee protects one example; for texts of "
          "several lines use format: jsonl or csv");
    Value reading{Value::Object{}};
    if (const auto* members = std::get_if<Value::Object>(&info.reading.data())) {
      for (const Value::Member& member : *members) {
        if (member.key != "columns" && member.key != "tokenizer")
          reading.set(member.key, member.value);
      }
      if (tokens_->file()) reading.set("tokenizer_sha256", tokens_->hash());
      info.reading = std::move(reading);
    }
    return info;
  }

  std::string format_, column_, target_, split_by_;
  bool trains_on_lines_;
  std::shared_ptr<const Tokens> tokens_;
};

void register_components(Registrar& registrar) {
  std::vector<ParamSpec> params = {
      param::path("train",
                  "File of the training texts, plain, .gz or .zst; with * or ? in its name, all "
                  "files that match.")
          .or_pattern()
          .example("train.csv"),
      param::path("test", "The same for the test texts; without it and split there is no test set.")
          .or_pattern()
          .optional(),
      split_param(),
      param::text("format",
                  "csv: a table with the text in one column. jsonl: a JSON object in each line. "
                  "lines: each line is a text without a target, and is one example, which is "
                  "what the guarantee protects. Of the keys below, header, delimiter, quote, "
                  "comment, decimal, trim and row apply only to csv.")
          .one_of({"csv", "jsonl", "lines"})
          .defaults_to("csv"),
      param::text("column",
                  "The column, or the member of the JSON objects, that contains the text.")
          .defaults_to("text"),
      param::integer("length",
                     "Tokens per example: a longer text is cut, and a shorter one is padded with "
                     "-1. Public, so choose it without looking at the texts.")
          .at_least(1)
          .at_most(1'000'000)
          .example(16),
      param::path("tokenizer",
                  "A tokenizer.json of Hugging Face's library: WordPiece with BERT's normalizer, "
                  "or byte-level BPE like GPT-2's. Without it each byte of a text is a token, and "
                  "the vocabulary has 256 tokens.")
          .optional(),
      param::text("tokenizer_sha256",
                  "The SHA-256 of that file. Without it, a changed file goes unnoticed.")
          .optional(),
  };
  for (auto& spec : TargetColumn::params()) {
    if (spec.name == "target") spec = ParamSpec(spec).optional();
    params.push_back(std::move(spec));
  }
  for (auto& spec : csv_form_params()) params.push_back(std::move(spec));
  registrar.add<DataSource, Text>({
      .name = "text",
      .summary = "Texts as rows of tokens: one for each record of a CSV, JSON-lines or plain file.",
      .reference = "RFC 4180, RFC 8259; Wu et al. 2016 (WordPiece); Sennrich et al. 2016 (BPE)",
      .params = std::move(params),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.text", "0.1.0", "data_source/text", register_components)
