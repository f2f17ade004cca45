#include "declared_table.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "privgrad/error.hpp"

using namespace privgrad;

ParamSpec columns_param(const std::string& promise) {
  return param::list(
             "columns",
             "What the columns are, all but the target. " + promise +
                 ", and nothing is read off private rows. Without it every column is a number, a "
                 "row with anything else is an error, and that is listed as unaccounted.",
             param::object("column", "One column, or all that a pattern fits.", column_params()))
      .at_least_items(1)
      .optional();
}

ParamSpec split_param() {
  return param::object("split",
                       "Takes test rows out of train, by a hash of each row alone: adding rows "
                       "moves no existing row.",
                       RowSplit::params())
      .optional();
}

ParamSpec missing_param() {
  const Value::List missing = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"};
  return param::list("missing", "Texts that mean that a value is missing.",
                     param::text("text", "One text."))
      .defaults_to(Value(missing));
}

DeclaredTable::DeclaredTable(const Params& params, TableForm form, TableParts& parts)
    : params_(params.value()),
      form_(std::move(form)),
      parts_(parts),
      has_classes_(params.has("target") && params.text("task") == "classification"),
      target_(params, form_.decimal_comma),
      has_test_(params.has("test")) {
  if (params.has("split")) split_.emplace(params.object("split"), form_.decimal_comma);
  if (has_test_ && split_)
    throw ConfigError("data.split is given, but the test rows are in a table of their own (test)");
}

std::vector<ColumnRule> column_rules(const Params& params) {
  std::vector<ColumnRule> rules;
  if (!params.has("columns")) return rules;
  for (const Params& rule : params.objects("columns")) rules.push_back(column_rule(rule));
  return rules;
}

namespace {

/// Adds the column's name if a value that does not fit is an error there.
void add_strict(const ColumnRule& rule, const std::string& name, std::vector<std::string>& strict) {
  if (rule.is_feature() && !rule.is_total()) strict.push_back(name);
}

}  // namespace

DataInfo DeclaredTable::info() {
  load();
  return info_;
}

DataInfo DeclaredTable::stream(const std::function<void(const RowBlock&)>& take) {
  // Each of the two tables counts as half of the progress, because their sizes say little about the
  // time that they take.
  const double train_share = has_test_ ? 0.5 : 1.0;
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
  const Table train = read_table(parts_.parts(Split::train), form_, target_, split(),
                                 hand_on(Split::train, 0.0, train_share));
  TargetColumn target = target_;
  learn(target, train);
  SideFacts test = train.test_facts;
  if (has_test_) {
    const Table other = read_table(parts_.parts(Split::test), form_, target, nullptr,
                                   hand_on(Split::test, train_share, 1.0 - train_share));
    check_columns(train, other);
    test = other.train_facts;
  }
  return info_of(train, test, target);
}

Dataset DeclaredTable::read(Split split) {
  load();
  const bool is_train = split == Split::train;
  if (!is_train && info_.test_rows == 0) return Dataset(info_.shape, std::vector<float>{}, {});
  std::optional<TableRows>& kept = is_train ? train_ : test_;
  TableRows rows = kept ? *std::exchange(kept, std::nullopt) : read_again(is_train);
  (is_train ? kept_of_train_ : kept_of_test_) = std::move(rows.kept);
  return Dataset(info_.shape, std::move(rows.features), std::move(rows.targets));
}

std::vector<std::string> DeclaredTable::columns() {
  return parts_.parts(Split::train).front().open(false)->read_names();
}

std::vector<std::vector<std::string>> DeclaredTable::kept(Split split) {
  std::vector<std::vector<std::string>> texts =
      std::move(split == Split::train ? kept_of_train_ : kept_of_test_);
  texts.resize(form_.kept.size());  // even if there are no test rows
  return texts;
}

void DeclaredTable::load() {
  if (is_loaded_) return;
  Table train = read_table(parts_.parts(Split::train), form_, target_, split());
  learn(target_, train);
  SideFacts test_facts = train.test_facts;
  TableRows test = std::move(train.test);
  if (has_test_) {
    Table other = read_table(parts_.parts(Split::test), form_, target_, nullptr);
    check_columns(train, other);
    test = std::move(other.train);
    test_facts = other.train_facts;
  }
  info_ = info_of(train, test_facts, target_);
  train_ = std::move(train.train);
  test_ = std::move(test);
  is_loaded_ = true;
}

void DeclaredTable::check_columns(const Table& train, const Table& test) const {
  if (test.columns.feature_names() == train.columns.feature_names()) return;
  throw IoError(parts_.name(Split::test) + ": has other columns than " + parts_.name(Split::train) +
                ", expected the same " + std::to_string(train.columns.names.size()) +
                (form_.are_named ? " names in the same order" : " columns"));
}

DataInfo DeclaredTable::foreseen_info() {
  std::vector<std::string> strict;
  std::size_t width = 0;
  if (form_.are_named && !form_.rules.empty()) {
    const std::vector<std::string> names = columns();
    const auto target = std::ranges::find(names, target_.name()) - names.begin();
    for (const Column& column : choose_columns(form_.rules, names, static_cast<std::size_t>(target),
                                               form_.missing, form_.decimal_comma, false)) {
      add_strict(column.rule(), column.name(), strict);
      width += column.width();
    }
  } else {  // the first line is a row, which may determine the number of fields
    for (const ColumnRule& rule : form_.rules) add_strict(rule, rule.name, strict);
  }
  DataInfo info = info_without_rows(strict);
  if (width > 0 && target_.states_classes()) info.shape = {{width}, target_.classes()};
  return info;
}

DataInfo DeclaredTable::info_without_rows(const std::vector<std::string>& strict) const {
  DataInfo info;
  info.has_targets = form_.has_targets;
  info.has_test_split = split_.has_value() || has_test_;
  for (const TablePart& part : parts_.parts(Split::train))
    info.train_origins.push_back(part.origin);
  // Without a table of their own, test rows are taken out of the training rows.
  if (has_test_) {
    for (const TablePart& part : parts_.parts(Split::test))
      info.test_origins.push_back(part.origin);
  }
  info.unaccounted = unaccounted(strict);
  // If a row changes, it may move to the other side, which changes the number of training examples.
  info.rows_chosen_by_value = split_.has_value();
  return info;
}

DataInfo DeclaredTable::info_of(const Table& train, const SideFacts& test,
                                const TargetColumn& target) const {
  std::vector<std::string> strict;
  for (const Column& column : train.columns.features)
    add_strict(column.rule(), column.name(), strict);
  DataInfo info = info_without_rows(strict);
  info.remarks = remarks(train);
  info.shape = {{train.columns.width}, target.classes()};
  info.train_rows = train.train_facts.rows;
  info.test_rows = test.rows;
  info.class_names = target.class_names();
  if (form_.are_named) {
    info.feature_names = train.columns.feature_names();
    info.reading = reading(train.columns, target);
  }
  return info;
}

void DeclaredTable::learn(TargetColumn& target, const Table& table) const {
  if (!form_.has_targets) {
    if (has_classes_ && target.classes() == 0)
      throw ConfigError(
          "data: unlabelled rows do not say how many classes there are: say labels or classes");
    return;
  }
  // The smallest and the largest target determine the number of classes.
  std::vector<float> ends;
  for (const SideFacts* side : {&table.train_facts, &table.test_facts}) {
    if (side->rows > 0) ends.insert(ends.end(), {side->least_target, side->most_target});
  }
  if (const std::string wrong = target.learn(ends); !wrong.empty())
    throw IoError(parts_.name(Split::train) + ": " + wrong);
}

/// Without a rule in the manifest for a row that does not fit, such a row ends the run, so a
/// completed run reveals that every row fits.
std::vector<std::string> DeclaredTable::unaccounted(const std::vector<std::string>& strict) const {
  std::vector<std::string> facts = target_.unaccounted();
  if (!form_.is_well_formed) facts.emplace_back("that every row is well formed (malformed)");
  if (form_.rules.empty()) {
    facts.emplace_back("that every value is a number (columns)");
    return facts;
  }
  if (strict.empty()) return facts;
  constexpr std::size_t kShown = 3;
  std::string names;
  for (std::size_t i = 0; i < std::min(kShown, strict.size()); ++i)
    names += (i == 0 ? "" : ", ") + strict[i];
  if (strict.size() > kShown) names += ", ...";
  facts.push_back("that every value fits its column: " + names + " (columns)");
  return facts;
}

Value DeclaredTable::reading(const TableColumns& columns, const TargetColumn& target) const {
  Value value{Value::Object{}};
  for (const Value::Member& member : std::get<Value::Object>(params_.data())) {
    const std::string& key = member.key;
    const bool is_of_these_rows = key == "train" || key == "test" || key == "split" ||
                                  key == "columns" || key == "unlabelled";
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

std::vector<std::string> DeclaredTable::remarks(const Table& table) const {
  const std::string file = parts_.name(Split::train) + ": ";
  std::vector<std::string> all;
  if (table.looks_like_index) {
    const std::string name = in_quotes(*table.looks_like_index);
    all.push_back(file + "the first column, " + name +
                  ", numbers the rows, as an index does, and is a feature all the same; leave it "
                  "out by columns: [{name: " +
                  name + ", type: drop}, {name: '*', type: number}]");
  }
  for (const std::string& misfit : table.misfits)
    all.push_back(misfit + ": each counts as one that does not fit");
  for (const std::string& name : table.columns.texts)
    all.push_back(file + in_quotes(name) + " is text, which no model here reads: left out");
  for (const Column& column : table.columns.features)
    if (column.rule().type == ColumnType::date && !time_directive(column.rule().format).empty())
      all.push_back(file + "the dates of " + in_quotes(column.name()) +
                    " have a time of day, with which no model can be exported as ONNX; for an "
                    "export, write only days");
  const std::string rows =
      " of " + std::to_string(table.train_facts.rows + table.test_facts.rows) + " rows ";
  for (std::size_t i = 0; i < table.filled.size(); ++i) {
    const Column& column = table.columns.features[i];
    if (table.filled[i] == 0) continue;
    std::string text = file;
    text.append(in_quotes(column.name())).append(": ").append(std::to_string(table.filled[i]));
    text.append(rows).append("have no valid value, and count as ");
    text.append(column.rule().fill ? format_number(*column.rule().fill) : "other or missing");
    all.push_back(std::move(text));
  }
  if (form_.row_is_line && table.spanning_rows > 0)
    all.push_back(file + std::to_string(table.spanning_rows) + rows +
                  "end within quotes; if they are parts of records that go over lines, say row: "
                  "record, or each of these lines is a row of its own");
  if (table.filled_targets > 0)
    all.push_back(file + "the target: " + std::to_string(table.filled_targets) + rows +
                  "have no valid target, and count as the declared one");
  return all;
}

TableRows DeclaredTable::read_again(bool is_train) {
  const Split side = is_train || split_ ? Split::train : Split::test;
  Table table = read_table(parts_.parts(side), form_, target_, split());
  TableRows& rows = !is_train && split_ ? table.test : table.train;
  const std::size_t promised = is_train ? info_.train_rows : info_.test_rows;
  if (table.columns.width != info_.shape.features.front() || rows.targets.size() != promised) {
    throw IoError(parts_.name(side) + ": has changed since it was first read");
  }
  return std::move(rows);
}
