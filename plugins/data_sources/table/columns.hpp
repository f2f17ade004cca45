// The column declarations of a table, and how they turn fields into features.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cell_text.hpp"
#include "dates.hpp"
#include "privgrad/params.hpp"

enum class ColumnType { number = 1, boolean, category, date, text, drop };

/// Names are limited because model files and lists of features keep those of columns and values.
inline constexpr std::size_t kLongestName = 1000;

/// What a date becomes features of.
enum class DatePart { days, day, month, weekday };

/// A manifest's declaration of the columns whose names match: one entry of `columns`.
///
/// An entry is `total` if every possible text of a field becomes some features: then no row can end
/// a run, and whether its fields are as declared shows nowhere but in its own features.
struct ColumnRule {
  std::string name;  ///< `*` stands for any characters.
  ColumnType type = ColumnType::number;
  std::optional<double> min, max;  ///< Numbers (of dates: days) beyond become the nearer end.
  std::optional<double> fill;      ///< Replaces missing or undeclared values.
  bool unit = false;               ///< min..max becomes 0..1.
  bool other = false;              ///< Categories, dates: a feature for all other values.
  bool indicator = false;          ///< One more feature: 1 if the value is missing or undeclared.
  std::vector<std::string> values;
  std::string format{kIsoDate};                ///< Of dates.
  std::vector<DatePart> parts;                 ///< Of dates: in the order of their features.
  std::optional<std::chrono::sys_days> since;  ///< DatePart::days counts from it.

  /// Of dates: a day of another year is none.
  YearRange years() const { return since ? YearRange{}.with(*since) : YearRange{}; }
  bool is_feature() const { return type != ColumnType::text && type != ColumnType::drop; }
  bool is_total() const { return has_other() ? other : fill.has_value(); }
  /// Whether the key `other`, and not `fill`, makes it total.
  bool has_other() const { return type == ColumnType::category || type == ColumnType::date; }
  /// What to add to the entry so that it is total.
  std::string remedy() const { return has_other() ? "other: true" : "fill: NUMBER"; }
};

/// The declaration of an entry's keys.
std::vector<privgrad::ParamSpec> column_params();

/// \param params  one entry.
/// \throws ConfigError  its keys contradict each other.
ColumnRule column_rule(const privgrad::Params& params);

/// \returns an entry that reads back as the rule.
privgrad::Value to_value(const ColumnRule& rule);

/// Turns fields of one column into features. Threads: const functions may run concurrently.
///
/// A number is what float32 holds of it, and then scaled in double: so it is the same in a program
/// that holds float32 and in the file that this program writes.
class Column {
 public:
  enum class Found { value, none };  ///< None: missing, or undeclared.

  /// \param missing  texts that mean a missing value, unless the rule declares them as values.
  Column(ColumnRule rule, std::string name, std::size_t field,
         const std::vector<std::string>& missing, bool decimal_comma);

  const std::string& name() const noexcept { return name_; }
  const ColumnRule& rule() const noexcept { return rule_; }
  std::size_t field() const noexcept { return field_; }  ///< In a row, from 0.
  std::size_t width() const noexcept { return width_; }  ///< Number of features.
  /// One for each feature: "age", "age=(missing)", "sex=f", "sex=(other)",
  /// "admitted.month=3".
  std::vector<std::string> feature_names() const;

  /// The texts that have a meaning by themselves: values of categories and booleans, and those that
  /// mean a missing value, where that is not what any other text means.
  std::vector<std::string> texts() const { return choices_.texts(); }
  /// Of a column of numbers: those that mean a missing one.
  const std::vector<float>& missing_numbers() const noexcept { return missing_numbers_; }
  /// Whether a column of numbers, or of days, can hold a value of this one.
  bool takes_numbers() const;
  bool takes_days() const;

  /// Writes width() features. With Found::none they are those that the rule gives for such values,
  /// and mean nothing unless the rule is total.
  Found encode(std::string_view text, float* features) const {
    double value = 0.0;
    if (!is_plain_ || !read_number(text, decimal_comma_, value)) return encode_any(text, features);
    features[0] = static_cast<float>(value);
    return Found::value;
  }

  /// "a finite number", "one of its values"...
  std::string expected() const;

 private:
  Found encode_any(std::string_view text, float* features) const;
  Found encode_number(std::string_view text, float* features) const;
  Found encode_choice(std::string_view text, float* features) const;
  Found encode_date(std::string_view text, float* features) const;
  /// \returns the day that the text is; nothing if it is missing, not of the form, or of a year that
  ///   the column does not know.
  std::optional<std::chrono::sys_days> day_in(std::string_view text) const;
  bool is_missing(float number) const {
    return std::find(missing_numbers_.begin(), missing_numbers_.end(), number) !=
           missing_numbers_.end();
  }
  float scaled(double value) const;
  std::vector<std::string> date_feature_names() const;

  ColumnRule rule_;
  std::string name_;
  std::size_t field_;
  std::size_t width_ = 1;
  bool decimal_comma_;
  bool is_plain_ = false;  ///< A number is its feature.
  std::vector<float> missing_numbers_;
  /// For dates: the texts that mean a missing one. For categories: the feature of each value and of
  /// each missing text; for booleans 0 or 1.
  Choices choices_;
};

/// Chooses the columns of a table that become features, in the order of the rules, and by name
/// where a rule has a pattern, so that the order in a file does not matter.
/// \param names  of the table's columns, each once.
/// \param target  index of the column to predict; names.size(): there is none.
/// \param by_place  patterns keep the table's order instead, for tables without names.
/// \throws ConfigError  a column that no rule names, or a rule that names no column.
std::vector<Column> choose_columns(const std::vector<ColumnRule>& rules,
                                   const std::vector<std::string>& names, std::size_t target,
                                   const std::vector<std::string>& missing, bool decimal_comma,
                                   bool by_place);

/// \returns whether `name` matches `pattern`, in which `*` stands for any characters.
bool matches(std::string_view pattern, std::string_view name);

/// \returns the text in quotes, shortened and with unprintable bytes replaced, fit for a message.
std::string in_quotes(std::string_view text);
