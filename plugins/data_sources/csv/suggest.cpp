#include "suggest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "privgrad/error.hpp"

namespace {

using privgrad::Value;

constexpr std::size_t kMostCategories = 50;
constexpr std::size_t kMostClasses = 100;

bool is_whole(double x) { return x == std::floor(x); }

/// Facts about one column, collected as its values pass by.
class Seen {
 public:
  explicit Seen(std::string name) : name_(std::move(name)) {}

  const std::string& name() const noexcept { return name_; }
  const std::set<std::string, std::less<>>& values() const noexcept { return values_; }

  void add(std::string_view text, const TableForm& form) {
    ++rows_;
    if (std::find(form.missing.begin(), form.missing.end(), text) != form.missing.end()) {
      ++missing_;
      return;
    }
    if (values_.size() <= kMostClasses && values_.find(text) == values_.end())
      values_.emplace(text);
    if (!are_numbers_) return;
    const auto number = number_in(text, form.decimal_comma);
    if (!number) {
      are_numbers_ = false;
      return;
    }
    counts_rows_ = counts_rows_ && missing_ == 0 && is_whole(*number) &&
                   (rows_ == 1 ? *number == 0.0 || *number == 1.0
                               : *number == least_ + static_cast<double>(rows_ - 1));
    least_ = std::min(least_, *number);
    most_ = std::max(most_, *number);
    sum_ += *number;
  }

  bool has_values() const { return missing_ < rows_; }
  bool are_numbers() const { return are_numbers_ && has_values(); }
  double least() const { return least_; }
  double most() const { return most_; }

  /// 0, 1, ... or 1, 2, ..., under a name that says no more.
  bool looks_like_index() const {
    const bool is_named_so =
        is_index_name(name_) || name_ == "id" || name_ == "ID" || name_.ends_with("_id");
    return are_numbers() && counts_rows_ && is_named_so;
  }

  bool is_boolean() const {
    ColumnRule boolean;
    boolean.type = ColumnType::boolean;
    const Column column(boolean, name_, 0, {}, false);
    float feature = 0.0f;
    return has_values() && values_.size() <= 2 &&
           std::all_of(values_.begin(), values_.end(), [&](const std::string& text) {
             return column.encode(text, &feature) == Column::Found::value;
           });
  }

  /// Texts of which most come again.
  bool is_category() const {
    return has_values() && values_.size() <= kMostCategories && 2 * values_.size() <= rows_;
  }

  ColumnRule rule() const {
    ColumnRule rule;
    rule.name = name_;
    rule.indicator = missing_ > 0;
    const bool is_constant = values_.size() == 1 && missing_ == 0;
    if (!has_values() || is_constant || looks_like_index()) {
      rule.type = ColumnType::drop;
    } else if (is_boolean()) {
      rule.type = ColumnType::boolean;
      rule.fill = 0.5;
    } else if (are_numbers_) {
      rule.fill = fill();
      if (least_ < most_) {
        rule.min = least_;
        rule.max = most_;
        rule.unit = true;
      }
    } else if (is_category()) {
      rule.type = ColumnType::category;
      rule.values.assign(values_.begin(), values_.end());
      rule.other = true;
    } else {
      rule.type = ColumnType::text;
    }
    if (!rule.is_feature()) rule.indicator = false;
    return rule;
  }

  /// The mean, to three digits, within the range.
  double fill() const {
    const double mean = sum_ / static_cast<double>(rows_ - missing_);
    if (mean == 0.0 || !std::isfinite(mean)) return std::clamp(0.0, least_, most_);
    const double step = std::pow(10.0, std::floor(std::log10(std::abs(mean))) - 2.0);
    return std::clamp(step >= 1.0 ? std::round(mean / step) * step
                                  : std::round(mean / step) / std::round(1.0 / step),
                      least_, most_);
  }

 private:
  std::string name_;
  std::uint64_t rows_ = 0, missing_ = 0;
  std::set<std::string, std::less<>> values_;
  bool are_numbers_ = true;
  bool counts_rows_ = true;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0.0;
};

bool are_class_indices(const Seen& target) {
  return target.are_numbers() && target.values().size() <= kMostClasses && target.least() >= 0.0 &&
         target.most() < static_cast<double>(kMostClasses) &&
         std::all_of(target.values().begin(), target.values().end(), [](const std::string& text) {
           const auto number = number_in(text, false);
           return number && is_whole(*number);
         });
}

void add_target(const Seen& target, Value& params) {
  if (are_class_indices(target)) {
    params.set("classes", std::max(2, static_cast<int>(target.most()) + 1));
    params.set("target_fill", 0);
  } else if (target.are_numbers()) {
    params.set("task", "regression");
    params.set("target_fill", target.fill());
  } else if (target.values().size() >= 2 && target.values().size() <= kMostClasses) {
    Value::List labels;
    for (const std::string& label : target.values()) labels.emplace_back(label);
    params.set("other_label", labels.front());
    params.set("labels", std::move(labels));
  } else {
    throw privgrad::IoError("csv: the target " + in_quotes(target.name()) +
                            " has neither numbers nor 2 to " + std::to_string(kMostClasses) +
                            " labels");
  }
}

struct Look {
  std::vector<Seen> seen;    ///< The columns.
  bool spans_lines = false;  ///< Whether any row does.
};

/// Goes through all rows.
Look look(const std::vector<std::filesystem::path>& files, const TableForm& form) {
  Look look;
  std::vector<Seen>& seen = look.seen;
  for (const std::filesystem::path& file : files) {
    CsvReader reader(file, form.dialect);
    const std::vector<std::string> names = read_names(reader, form);
    std::vector<std::size_t> places;
    for (const std::string& name : names) {
      auto place = std::find_if(seen.begin(), seen.end(),
                                [&](const Seen& column) { return column.name() == name; });
      if (place == seen.end()) place = seen.emplace(seen.end(), name);
      places.push_back(static_cast<std::size_t>(place - seen.begin()));
    }
    for (bool more = begin_rows(reader, form, names.size()); more; more = reader.next()) {
      check_size(reader, names.size());
      for (std::size_t i = 0; i < names.size(); ++i) seen[places[i]].add(reader.field(i), form);
      look.spans_lines = look.spans_lines || reader.spans_lines();
    }
  }
  return look;
}

}  // namespace

Value suggest_params(const std::vector<std::filesystem::path>& files, const TableForm& form,
                     const std::string& target) {
  const auto [seen, spans_lines] = look(files, form);
  Value params{Value::Object{}};
  Value::List columns;
  std::vector<std::string> names;
  for (const Seen& column : seen) {
    names.push_back(column.name());
    if (column.name() == target) {
      add_target(column, params);
    } else {
      columns.push_back(to_value(column.rule()));
    }
  }
  if (std::find(names.begin(), names.end(), target) == names.end()) {
    const std::string nearest = privgrad::nearest_name(target, names);
    throw privgrad::ConfigError(
        "csv: target is " + in_quotes(target) + ", which the table lacks" +
        (nearest.empty() ? "" : "; did you mean " + in_quotes(nearest) + "?"));
  }
  params.set("columns", std::move(columns));
  if (can_fill_malformed(form) && !spans_lines) params.set("malformed", "fill");
  return params;
}
