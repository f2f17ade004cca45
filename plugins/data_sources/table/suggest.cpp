#include "suggest.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "../files/shown_text.hpp"
#include "privgrad/error.hpp"

namespace {

using privgrad::Value;

constexpr std::size_t kMostCategories = 50;
constexpr std::size_t kMostClasses = 100;

/// Forms of dates that are recognised. Dates that day and month exchanged are dates, too, are not:
/// which is which cannot be told from them.
constexpr std::array<std::string_view, 7> kDateFormats = {
    kIsoDate,   "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d",
    "%d.%m.%Y", "%d/%m/%Y",          "%m/%d/%Y"};

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
    look_at_dates(text);
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

  /// The place of the form that all values have as dates, if it is one alone.
  std::optional<std::size_t> date_format() const {
    const bool is_one = std::count(fits_.begin(), fits_.end(), true) == 1;
    if (!has_values() || !is_one) return std::nullopt;
    return static_cast<std::size_t>(std::find(fits_.begin(), fits_.end(), true) - fits_.begin());
  }

  /// The values, to be written down.
  std::vector<std::string> texts() const {
    for (const std::string& value : values_) {
      if (const std::string wrong = encoding_problem(value); !wrong.empty())
        throw privgrad::IoError("a value of the column " + in_quotes(name_) + " " + wrong);
    }
    return {values_.begin(), values_.end()};
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
    } else if (const auto format = date_format()) {
      rule.type = ColumnType::date;
      rule.format = kDateFormats[*format];
      rule.parts = {DatePart::days, DatePart::month, DatePart::weekday};
      rule.since = first_days_[*format];
      if (first_days_[*format] < last_days_[*format]) {
        rule.min = 0.0;
        rule.max = static_cast<double>((last_days_[*format] - first_days_[*format]).count());
        rule.unit = true;
      }
      rule.other = true;
      rule.indicator = false;
    } else if (is_category()) {
      rule.type = ColumnType::category;
      rule.values = texts();
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
  void look_at_dates(std::string_view text) {
    const bool is_first = rows_ == missing_ + 1;
    for (std::size_t i = 0; i < kDateFormats.size(); ++i) {
      if (!fits_[i]) continue;
      const auto day = date_in(text, kDateFormats[i]);
      fits_[i] = day.has_value();
      if (!day) continue;
      first_days_[i] = is_first ? *day : std::min(first_days_[i], *day);
      last_days_[i] = is_first ? *day : std::max(last_days_[i], *day);
    }
  }

  std::string name_;
  std::uint64_t rows_ = 0, missing_ = 0;
  std::set<std::string, std::less<>> values_;
  bool are_numbers_ = true;
  bool counts_rows_ = true;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0.0;
  std::array<bool, kDateFormats.size()> fits_ = {true, true, true, true, true, true, true};
  std::array<std::chrono::sys_days, kDateFormats.size()> first_days_{}, last_days_{};
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
    for (std::string& label : target.texts()) labels.emplace_back(std::move(label));
    params.set("other_label", labels.front());
    params.set("labels", std::move(labels));
  } else {
    throw privgrad::IoError("data.target: the column " + in_quotes(target.name()) +
                            " has neither numbers nor 2 to " + std::to_string(kMostClasses) +
                            " labels");
  }
}

struct Look {
  std::vector<Seen> seen;    ///< The columns.
  bool spans_lines = false;  ///< Whether any row does.
};

/// Goes through all rows.
Look look(const std::vector<TablePart>& parts, const TableForm& form) {
  Look look;
  std::vector<Seen>& seen = look.seen;
  for (const TablePart& part : parts) {
    const std::unique_ptr<TextRows> rows = part.open(true);
    std::vector<std::size_t> places;
    for (const std::string& name : rows->read_names()) {
      auto place = std::find_if(seen.begin(), seen.end(),
                                [&](const Seen& column) { return column.name() == name; });
      if (place == seen.end()) place = seen.emplace(seen.end(), name);
      places.push_back(static_cast<std::size_t>(place - seen.begin()));
    }
    while (rows->next()) {
      for (std::size_t i = 0; i < places.size(); ++i) seen[places[i]].add(rows->field(i), form);
      look.spans_lines = look.spans_lines || rows->spans_lines();
    }
  }
  return look;
}

}  // namespace

Suggestion suggest_params(const std::vector<TablePart>& parts, const TableForm& form,
                          const std::string& target) {
  const auto [seen, spans_lines] = look(parts, form);
  Suggestion made{.params = Value{Value::Object{}}, .spans_lines = spans_lines};
  Value::List columns;
  std::vector<std::string> names;
  for (const Seen& column : seen) {
    names.push_back(column.name());
    made.numbers += column.are_numbers() ? 1 : 0;
    if (column.name() == target) {
      add_target(column, made.params);
    } else {
      columns.push_back(to_value(column.rule()));
    }
  }
  if (std::find(names.begin(), names.end(), target) == names.end()) refuse_target(target, names);
  made.params.set("columns", std::move(columns));
  return made;
}
