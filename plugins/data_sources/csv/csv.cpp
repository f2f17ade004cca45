#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "privgrad/data_files.hpp"
#include "privgrad/data_source.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/streamed_rows.hpp"
#include "privgrad/suggests_params.hpp"
#include "suggest.hpp"
#include "table.hpp"

namespace {

using privgrad::ConfigError;
using privgrad::DataInfo;
using privgrad::Dataset;
using privgrad::IoError;
using privgrad::Split;
using privgrad::Value;
using Paths = std::vector<std::filesystem::path>;
namespace param = privgrad::param;

const Value::List kMissing = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"};

std::optional<char> character(const privgrad::Params& params, const char* name) {
  if (!params.has(name) || params.text(name) == "none") return std::nullopt;
  return params.text(name).front();
}

/// The files that a pattern fits, by name, or the one that has this name.
Paths files_of(const std::filesystem::path& pattern) {
  const std::string name = pattern.filename().string();
  std::error_code failure;
  if (name.find_first_of("*?") == name.npos || std::filesystem::exists(pattern, failure))
    return {pattern};
  Paths found;
  for (const auto& entry : std::filesystem::directory_iterator(pattern.parent_path(), failure)) {
    std::error_code unknown;
    if (entry.is_regular_file(unknown) &&
        ::fnmatch(name.c_str(), entry.path().filename().c_str(), FNM_PERIOD) == 0)
      found.push_back(entry.path());
  }
  if (found.empty()) throw IoError(pattern.string() + ": no file has a name that fits");
  std::sort(found.begin(), found.end());
  return found;
}

TableForm form_of(const privgrad::Params& params) {
  TableForm form;
  form.dialect = {params.text("delimiter").front(), character(params, "quote"),
                  character(params, "comment"), params.boolean("trim")};
  form.header = params.boolean("header");
  form.has_targets = !params.boolean("unlabelled");
  form.decimal_comma = params.text("decimal") == ",";
  form.missing = params.texts("missing");
  form.fills_malformed = params.text("malformed") == "fill";
  if (form.decimal_comma && form.dialect.delimiter == ',')
    throw ConfigError("csv: decimal is ',', and so is delimiter; numbers would be cut in two");
  if (!params.has("columns")) return form;
  for (const privgrad::Params& rule : params.objects("columns"))
    form.rules.push_back(column_rule(rule));
  return form;
}

class Csv final : public privgrad::DataSource,
                  public privgrad::DataFiles,
                  public privgrad::StreamedRows,
                  public privgrad::SuggestsParams {
 public:
  explicit Csv(const privgrad::Params& params)
      : params_(params.value()),
        form_(form_of(params)),
        train_file_(params.path("train")),
        has_classes_(params.text("task") == "classification"),
        target_(params, form_.decimal_comma) {
    if (params.has("test")) test_file_ = params.path("test");
    if (params.has("split")) split_.emplace(params.object("split"));
    if (test_file_ && split_)
      throw ConfigError("csv: split is given, but the test rows are in a file of their own (test)");
    check_fills();
    if (form_.header) return;
    std::size_t column = 0;
    const std::string& name = target_.name();
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), column);
    if (error != std::errc{} || end != name.data() + name.size()) {
      throw ConfigError("csv: target is " + in_quotes(name) +
                        ", but without a header it is the number of a column, counted from 0");
    }
  }

  Paths files() override {
    Paths all = train_files();
    for (const auto& file : test_files()) all.push_back(file);
    return all;
  }

  Value suggest() override { return suggest_params(train_files(), form_, target_.name()); }

  /// A CSV file does not say how many rows it has, so this reads the files.
  DataInfo info() override {
    load();
    return info_;
  }

  /// In one pass; nothing of it is kept for info() and read(), which read the files anew.
  DataInfo stream(const std::function<void(const privgrad::RowBlock&)>& take) override {
    // Two files count for half each: their sizes say little about how long they take.
    const double train_share = test_file_ ? 0.5 : 1.0;
    const auto hand_on = [&](Split side, double before, double share) {
      return [&take, side, before, share](bool is_test, TableRows& rows, double done) {
        take({.split = is_test ? Split::test : side,
              .features = std::span<const float>(rows.features),
              .scale = 1.0f,
              .targets = rows.targets,
              .done = before + share * done});
        rows.features.clear();
        rows.targets.clear();
      };
    };
    const Table train =
        read_table(train_files(), form_, target_, split(), hand_on(Split::train, 0.0, train_share));
    TargetColumn target = target_;
    learn(target, train);
    SideFacts test = train.test_facts;
    if (test_file_) {
      const Table other = read_table(test_files(), form_, target, nullptr,
                                     hand_on(Split::test, train_share, 1.0 - train_share));
      check_columns(train, other);
      test = other.train_facts;
    }
    return info_of(train, test, target);
  }

  Dataset read(Split split) override {
    load();
    const bool is_train = split == Split::train;
    if (!is_train && info_.test_rows == 0) return Dataset(info_.shape, std::vector<float>{}, {});
    std::optional<TableRows>& kept = is_train ? train_ : test_;
    TableRows rows = kept ? *std::exchange(kept, std::nullopt) : read_again(is_train);
    return Dataset(info_.shape, std::move(rows.features), std::move(rows.targets));
  }

 private:
  /// A row of empty fields has to become an example, and to be told from what is no row.
  void check_fills() const {
    if (!form_.fills_malformed) return;
    const std::string fill = "csv: malformed is fill, ";
    if (!can_fill_malformed(form_)) {
      throw ConfigError(
          fill + (form_.header
                      ? "but comment is given: a row could become a comment; say comment: none"
                      : "but without a header the first row says how many fields a row has; give "
                        "the file one"));
    }
    if (form_.rules.empty())
      throw ConfigError(fill + "but columns does not say what becomes of the fields of such a row");
    for (const ColumnRule& rule : form_.rules) {
      if (!rule.is_feature() || rule.is_total()) continue;
      throw ConfigError(fill + "but columns does not say what an empty field of " +
                        in_quotes(rule.name) + " becomes; say " +
                        (rule.type == ColumnType::category ? "other: true" : "fill: NUMBER"));
    }
    if (form_.has_targets && !target_.is_total()) {
      throw ConfigError(fill + "but not what an empty target becomes; say " +
                        (target_.class_names().empty() ? "target_fill" : "other_label"));
    }
  }

  /// Looked up once, so that a file that appears meanwhile is in no part of a run.
  const Paths& train_files() {
    if (train_files_.empty()) train_files_ = files_of(train_file_);
    return train_files_;
  }
  const Paths& test_files() {
    if (test_file_ && test_files_.empty()) test_files_ = files_of(*test_file_);
    return test_files_;
  }
  RowSplit* split() { return split_ ? &*split_ : nullptr; }

  void load() {
    if (is_loaded_) return;
    Table train = read_table(train_files(), form_, target_, split());
    learn(target_, train);
    SideFacts test_facts = train.test_facts;
    TableRows test = std::move(train.test);
    if (test_file_) {
      Table other = read_table(test_files(), form_, target_, nullptr);
      check_columns(train, other);
      test = std::move(other.train);
      test_facts = other.train_facts;
    }
    info_ = info_of(train, test_facts, target_);
    train_ = std::move(train.train);
    test_ = std::move(test);
    is_loaded_ = true;
  }

  void check_columns(const Table& train, const Table& test) const {
    if (test.columns.feature_names() == train.columns.feature_names()) return;
    throw IoError(test_file_->string() + ": has other columns than " + train_file_.string() +
                  ", expected the same " + std::to_string(train.columns.names.size()) +
                  (form_.header ? " names in the same order" : " columns"));
  }

  DataInfo info_of(const Table& train, const SideFacts& test, const TargetColumn& target) const {
    DataInfo info;
    info.remarks = remarks(train);
    info.shape = {{train.columns.width}, target.classes()};
    info.train_rows = train.train_facts.rows;
    info.test_rows = test.rows;
    info.has_test_split = split_.has_value() || test_file_.has_value();
    info.unaccounted = unaccounted(train.columns);
    // A row that is changed changes sides, and the number of training examples with it.
    info.rows_chosen_by_value = split_.has_value();
    info.class_names = target.class_names();
    info.has_targets = form_.has_targets;
    if (form_.header) {
      info.feature_names = train.columns.feature_names();
      info.reading = reading(train.columns, target);
    }
    return info;
  }

  void learn(TargetColumn& target, const Table& table) const {
    if (!form_.has_targets) {
      if (has_classes_ && target.classes() == 0)
        throw ConfigError(
            "csv: unlabelled rows do not say how many classes there are: say labels "
            "or classes");
      return;
    }
    // The number of classes follows from the ends of their range.
    std::vector<float> ends;
    for (const SideFacts* side : {&table.train_facts, &table.test_facts}) {
      if (side->rows > 0) ends.insert(ends.end(), {side->least_target, side->most_target});
    }
    if (const std::string wrong = target.learn(ends); !wrong.empty())
      throw IoError(train_file_.string() + ": " + wrong);
  }

  /// A row that does not fit ends the run unless the manifest says what becomes of it; then that a
  /// run took place says of every row that it fits.
  std::vector<std::string> unaccounted(const TableColumns& columns) const {
    std::vector<std::string> facts = target_.unaccounted();
    if (!form_.fills_malformed) facts.emplace_back("that every row is well formed");
    if (form_.rules.empty()) {
      facts.emplace_back("that every value is a number");
      return facts;
    }
    std::string strict;
    std::size_t count = target_.is_total() ? 0 : 1;
    if (count > 0) strict = target_.name();
    for (const Column& column : columns.features) {
      if (column.rule().is_total()) continue;
      constexpr std::size_t kShown = 3;
      if (++count <= kShown) strict += (strict.empty() ? "" : ", ") + column.name();
      if (count == kShown + 1) strict += ", ...";
    }
    if (count > 0) facts.push_back("that every value fits its column: " + strict);
    return facts;
  }

  /// The columns by their names, in their order; what a file has beside them is left out.
  Value reading(const TableColumns& columns, const TargetColumn& target) const {
    Value value{Value::Object{}};
    for (const Value::Member& member : std::get<Value::Object>(params_.data())) {
      const std::string& key = member.key;
      const bool is_of_these_rows = key == "train" || key == "test" || key == "split" ||
                                    key == "columns" || key == "unlabelled" || key == "malformed";
      if (!is_of_these_rows) value.set(key, member.value);
    }
    if (has_classes_ && target.class_names().empty())
      value.set("classes", static_cast<std::int64_t>(target.classes()));
    Value::List entries;
    for (const Column& column : columns.features) {
      ColumnRule rule = column.rule();
      rule.name = column.name();
      entries.push_back(to_value(rule));
    }
    ColumnRule others;
    others.name = "*";
    others.type = ColumnType::drop;
    entries.push_back(to_value(others));
    value.set("columns", std::move(entries));
    return value;
  }

  std::vector<std::string> remarks(const Table& table) const {
    const std::string file = train_file_.string() + ": ";
    std::vector<std::string> all;
    if (table.looks_like_index) {
      const std::string name = in_quotes(*table.looks_like_index);
      all.push_back(file + "the first column, " + name +
                    ", numbers the rows, as an index does, and is a feature all the same; leave it "
                    "out by columns: [{name: " +
                    name + ", type: drop}, {name: '*', type: number}]");
    }
    for (const std::string& name : table.columns.texts)
      all.push_back(file + in_quotes(name) + " is text, which no model here reads: left out");
    const std::string rows =
        " of " + std::to_string(table.train_facts.rows + table.test_facts.rows) + " rows ";
    for (std::size_t i = 0; i < table.filled.size(); ++i) {
      const Column& column = table.columns.features[i];
      if (table.filled[i] == 0) continue;
      std::string text = file;
      text.append(in_quotes(column.name())).append(": ").append(std::to_string(table.filled[i]));
      text.append(rows).append("have no value that fits, and count as ");
      text.append(column.rule().fill ? privgrad::format_number(*column.rule().fill)
                                     : "other or missing");
      all.push_back(std::move(text));
    }
    if (table.filled_targets > 0)
      all.push_back(file + "the target: " + std::to_string(table.filled_targets) + rows +
                    "have none that fits, and count as the one that is declared for them");
    return all;
  }

  TableRows read_again(bool is_train) {
    Table table =
        read_table(is_train || split_ ? train_files() : test_files(), form_, target_, split());
    TableRows& rows = !is_train && split_ ? table.test : table.train;
    const std::size_t promised = is_train ? info_.train_rows : info_.test_rows;
    if (table.columns.width != info_.shape.features.front() || rows.targets.size() != promised) {
      throw IoError((is_train || split_ ? train_file_ : *test_file_).string() +
                    ": has changed since it was first read");
    }
    return std::move(rows);
  }

  Value params_;
  TableForm form_;
  std::filesystem::path train_file_;
  std::optional<std::filesystem::path> test_file_;
  Paths train_files_, test_files_;
  bool has_classes_;
  TargetColumn target_;
  std::optional<RowSplit> split_;
  bool is_loaded_ = false;
  DataInfo info_;
  std::optional<TableRows> train_;  ///< Until it is first asked for.
  std::optional<TableRows> test_;
};

std::vector<privgrad::ParamSpec> form_params() {
  return {
      param::boolean("unlabelled",
                     "The rows have no target: for privgrad predict, which takes all else from the "
                     "model.")
          .defaults_to(false),
      param::boolean("header", "Whether the first line names the columns.").defaults_to(true),
      param::text("delimiter", "What separates fields.")
          .one_of({",", ";", "\t", "|", " "})
          .defaults_to(","),
      param::text("quote", "What fields may stand in, doubled inside them.")
          .one_of({"\"", "'", "none"})
          .defaults_to("\""),
      param::text("comment", "Lines that begin with it are passed over.")
          .one_of({"#", "%", "none"})
          .defaults_to("none"),
      param::text("decimal", "What stands before the decimals of a number.")
          .one_of({".", ","})
          .defaults_to("."),
      param::boolean("trim", "Whether blanks around a field are not part of it.")
          .defaults_to(false),
      param::text("malformed",
                  "What becomes of a line that is no row: one with another number of fields than "
                  "the header, a quote at the wrong place, or more than 16 MiB. An error, which "
                  "ends the run, so that a run says of every row that it is none (listed as "
                  "unaccounted); or a row of empty fields, which columns and other_label or "
                  "target_fill then have to fill. With fill each line is a row: quotes hold no "
                  "line ends.")
          .one_of({"error", "fill"})
          .defaults_to("error"),
      param::list("missing", "Texts that mean that a value is missing.",
                  param::text("text", "One text."))
          .defaults_to(Value(kMissing)),
  };
}

void register_components(privgrad::Registrar& registrar) {
  std::vector<privgrad::ParamSpec> params = {
      param::path("train",
                  "CSV file of the training examples, plain, .gz or .zst; with * and ? in its name "
                  "all files that fit, each with a header of the same names.")
          .or_pattern()
          .example("train.csv"),
      param::path("test", "The same of the test examples; without it and split there are none.")
          .or_pattern()
          .optional(),
      param::object("split",
                    "Takes test rows out of train, by a hash of each row alone: rows that are "
                    "added move no others.",
                    RowSplit::params())
          .optional(),
      param::list(
          "columns",
          "What the columns are, all but the target. Declared, and with malformed: fill, no row "
          "can end a run, and nothing is read off private rows. Without it every column is a "
          "number, a row "
          "that has none is an error, and that is listed as unaccounted.",
          param::object("column", "One column, or all that a pattern fits.", column_params()))
          .at_least_items(1)
          .optional(),
  };
  for (auto& spec : TargetColumn::params()) params.push_back(std::move(spec));
  for (auto& spec : form_params()) params.push_back(std::move(spec));
  registrar.add<privgrad::DataSource, Csv>({
      .name = "csv",
      .summary = "Tables as text: numbers, booleans and categories, one column of which is the "
                 "target.",
      .reference = "RFC 4180",
      .params = std::move(params),
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.csv", "0.1.0", register_components)
