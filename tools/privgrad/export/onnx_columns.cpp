#include "onnx_columns.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "onnx_model.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/utf8.hpp"
#include "privgrad/params.hpp"

namespace privgrad::tool {
namespace {

/// Returns the features of a text; NaN if `privgrad predict` would refuse it.
std::vector<float> features_of(const Column& column, const std::string& text) {
  std::vector<float> features(column.width());
  if (column.encode(text, features.data()) == Column::Found::none && !column.rule().is_total())
    std::ranges::fill(features, std::numeric_limits<float>::quiet_NaN());
  return features;
}

/// Returns a text that the column does not declare.
std::string unheard_of(const Column& column) {
  std::size_t longest = 0;
  for (const std::string& text : column.texts()) longest = std::max(longest, text.size());
  return std::string(longest + 1, '?');
}

/// Adds the features of one column.
class ColumnGraph {
 public:
  ColumnGraph(OnnxGraph& graph, const Column& column, std::vector<std::string>& refused)
      : graph_(graph), column_(column), refused_(refused) {}

  /// \returns float32, [n, width].
  std::string add() {
    const bool is_number = column_.rule().type == ColumnType::number;
    graph_.add_input(column_.name(), {1},
                     is_number ? onnx::TensorProto::DOUBLE : onnx::TensorProto::STRING);
    if (is_number) return number();
    if (column_.rule().type == ColumnType::category) return category();
    return looked_up();
  }

 private:
  /// Returns the number that the data source computes: rounded to float32, then used in double.
  std::string number() {
    const ColumnRule& rule = column_.rule();
    std::string value = column_.name();
    // The largest float32 plus half a unit in its last place: from here on, numbers round to
    // infinity.
    const double beyond = std::ldexp(2.0 - std::ldexp(1.0, -24), 127);
    std::string is_there = graph_.add("Less", {graph_.add("Abs", {value}), number(beyond)});
    value = graph_.cast(graph_.cast(value, onnx::TensorProto::FLOAT), onnx::TensorProto::DOUBLE);
    for (const float missing : column_.missing_numbers()) {
      const std::string is_it = graph_.add("Equal", {value, number(static_cast<double>(missing))});
      is_there = graph_.add("And", {is_there, graph_.add("Not", {is_it})});
    }
    if (rule.min) value = graph_.add("Max", {value, number(*rule.min)});
    if (rule.max) value = graph_.add("Min", {value, number(*rule.max)});
    if (rule.unit) {
      value = graph_.add("Sub", {value, number(*rule.min)});
      value = graph_.add("Div", {value, number(*rule.max - *rule.min)});
    }
    const std::string fill = graph_.scalar(features_of(column_, unheard_of(column_)).front());
    value = graph_.add("Where", {is_there, graph_.cast(value, onnx::TensorProto::FLOAT), fill});
    if (!rule.indicator) return value;
    const std::string is_missing =
        graph_.cast(graph_.add("Not", {is_there}), onnx::TensorProto::FLOAT);
    return graph_.add("Concat", {value, is_missing}, {{"axis", std::int64_t{1}}});
  }
  std::string number(double value) { return graph_.constant(std::span(&value, 1), {}); }

  /// Gives each text the index of its feature; an index beyond the last sets no feature to 1.
  std::string category() {
    const auto place_of = [&](const std::string& text) {
      const std::vector<float> features = features_of(column_, text);
      return std::ranges::find(features, 1.0f) - features.begin();
    };
    std::map<std::string, std::int64_t> places;
    for (const std::string& text : column_.texts()) places.emplace(text, place_of(text));
    const std::string place = labels(places, place_of(unheard_of(column_)));
    const auto width = static_cast<std::int64_t>(column_.width());
    const std::array<float, 2> off_and_on{0.0f, 1.0f};
    const std::string hot = graph_.add("OneHot", {place, graph_.constant(std::span(&width, 1), {1}),
                                                  graph_.constant(off_and_on, {2})});
    refused_.push_back(graph_.add("Equal", {place, graph_.constant(std::span(&width, 1), {})}));
    return graph_.reshape(hot, {column_.width()});
  }

  /// Handles booleans and dates: looks up each text in a table in which texts with equal features
  /// share a row.
  std::string looked_up() {
    std::vector<float> table;
    std::map<std::string, std::int64_t> row_of_text, row_of_bytes;
    const auto row_of = [&](const std::vector<float>& features) {
      const auto next = static_cast<std::int64_t>(table.size() / column_.width());
      const std::string bytes(reinterpret_cast<const char*>(features.data()),
                              features.size() * sizeof(float));
      const auto [row, is_new] = row_of_bytes.emplace(bytes, next);
      if (is_new) table.insert(table.end(), features.begin(), features.end());
      return row->second;
    };
    for (const std::string& text : column_.texts())
      row_of_text.emplace(text, row_of(features_of(column_, text)));
    const std::vector<float> others = features_of(column_, unheard_of(column_));
    if (column_.rule().type == ColumnType::date) {
      add_days([&](const std::string& text, const std::vector<float>& features) {
        row_of_text.emplace(text, row_of(features));
      });
    }
    const std::string row = labels(row_of_text, row_of(others));
    const std::string rows =
        graph_.constant(table, {table.size() / column_.width(), column_.width()});
    return graph_.reshape(graph_.add("Gather", {rows, row}), {column_.width()});
  }

  /// Lists all days that the column accepts, in every spelling, because ONNX has no operation that
  /// splits a text.
  /// \param take  receives the texts of days and their features.
  template <class Take>
  void add_days(const Take& take) const {
    using namespace std::chrono;
    const ColumnRule& rule = column_.rule();
    refuse_time_of_day(rule);
    const YearRange years = rule.years();
    for (sys_days day = years.first / January / 1; years.has(day); day += days{1}) {
      for (const std::string& text : texts_of_date(day, rule.format))
        take(text, features_of(column_, text));
    }
  }

  void refuse_time_of_day(const ColumnRule& rule) const {
    const std::string_view directive = time_directive(rule.format);
    if (directive.empty()) return;
    throw ConfigError("the model cannot be exported: the dates of " + in_quotes(column_.name()) +
                      " have a time of day (" + std::string(directive) +
                      "), which ONNX cannot parse; train with days only");
  }

  std::string labels(const std::map<std::string, std::int64_t>& places, std::int64_t otherwise) {
    std::vector<std::string> keys;
    std::vector<std::int64_t> values;
    for (const auto& [key, value] : places) {
      keys.push_back(key);
      values.push_back(value);
    }
    return graph_.add("ai.onnx.ml.LabelEncoder", {column_.name()},
                      {{"keys_strings", std::move(keys)},
                       {"values_int64s", std::move(values)},
                       {"default_int64", otherwise}});
  }

  OnnxGraph& graph_;
  const Column& column_;
  std::vector<std::string>& refused_;
};

/// Returns the declarations of the parameters for reading columns.
std::vector<ParamSpec> reading_specs() {
  std::vector<ParamSpec> specs;
  specs.push_back(param::list("columns", "", param::object("column", "", column_params())));
  specs.push_back(param::list("missing", "", param::text("text", "")));
  specs.push_back(param::text("decimal", "").one_of({".", ","}).defaults_to("."));
  return specs;
}

bool has_features_of(const std::vector<Column>& columns, const core::ModelFile& file) {
  std::vector<std::string> names;
  for (const Column& column : columns) {
    for (const std::string& name : column.feature_names()) names.push_back(core::shown_line(name));
  }
  return names == file.features && Shape{names.size()} == file.input.features;
}

}  // namespace

std::vector<Column> saved_columns(const core::ModelFile& file) {
  const std::string csv = "privgrad.csv:csv", memory = "privgrad.memory:memory";
  if (!file.data || (file.data->name != csv && file.data->name != memory)) return {};
  const std::vector<ParamSpec> specs = reading_specs();
  Value chosen{Value::Object{}};
  bool has_columns = false;
  for (const Value::Member& member : std::get<Value::Object>(file.data->params.data())) {
    has_columns = has_columns || member.key == "columns";
    const auto is_member = [&](const ParamSpec& spec) { return spec.name == member.key; };
    if (std::ranges::any_of(specs, is_member)) chosen.set(member.key, member.value);
  }
  if (!has_columns) return {};
  std::vector<Column> columns;
  try {
    const Params params = Params::make("data", specs, chosen);
    std::vector<std::string> missing = params.texts("missing");
    // In tables lent by a program, the empty text means missing.
    if (file.data->name == memory) missing.emplace_back();
    for (const Params& entry : params.objects("columns")) {
      const ColumnRule rule = column_rule(entry);
      if (rule.is_feature())
        columns.emplace_back(rule, rule.name, 0, missing, params.text("decimal") == ",");
    }
  } catch (const ConfigError& problem) {
    throw IoError(std::string("the model's columns are not valid: ") + problem.what());
  }
  if (has_features_of(columns, file)) return columns;
  throw IoError("the model's columns do not yield its features");
}

std::string add_columns(OnnxGraph& graph, const std::vector<Column>& columns,
                        std::vector<std::string>& refused) {
  for (const Column& column : columns) {
    const std::string name = core::shown_line(column.name());
    if (name.empty())
      throw ConfigError("the model cannot be exported: a column has no name, and each is an input");
    if (std::ranges::find(kOutputs, name) != kOutputs.end())
      throw ConfigError("the model cannot be exported: the column '" + name +
                        "' has the name of an output; train with another name");
    graph.reserve(column.name());
  }
  std::vector<std::string> features;
  for (const Column& column : columns)
    features.push_back(ColumnGraph(graph, column, refused).add());
  return graph.add("Concat", features, {{"axis", std::int64_t{1}}});
}

}  // namespace privgrad::tool
