// The column declarations of a table, which turn fields into features.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cell_text.hpp"
#include "dates.hpp"
#include "privgrad/params.hpp"

enum class ColumnType { number = 1, boolean, category, date, text, drop };

/// The longest name of a column or value. Names are limited because model files and lists of
/// features contain them.
inline constexpr std::size_t kLongestName = 1000;

/// The parts of a date that become features.
enum class DatePart { days, day, month, weekday };

/// Turns a text into tokens. Every text, whatever its bytes are, gives some tokens.
class TextEncoder {
 public:
  TextEncoder() = default;
  virtual ~TextEncoder() = default;
  TextEncoder(const TextEncoder&) = delete;
  TextEncoder& operator=(const TextEncoder&) = delete;
  /// Returns the number of features.
  virtual std::size_t length() const = 0;
  /// Writes length() features.
  virtual void encode(std::string_view text, float* features) const = 0;
};

/// A manifest's declaration of the columns whose names match: one entry of `columns`.
///
/// An entry is `total` if every possible text of a field becomes features. In this case no row can
/// end a run, and a field that does not match the declaration affects only its own row's features.
struct ColumnRule {
  std::string name;  ///< `*` stands for any characters.
  ColumnType type = ColumnType::number;
  /// The range: numbers (for dates: days) outside the range become its nearer end.
  std::optional<double> min, max;
  std::optional<double> fill;  ///< Replaces missing or undeclared values.
  bool unit = false;           ///< Whether min..max is scaled to 0..1.
  /// For categories and dates: whether there is a feature for all other values.
  bool other = false;
  /// Whether there is one more feature, which is 1 if the value is missing or undeclared.
  bool indicator = false;
  std::vector<std::string> values;
  std::string format{kIsoDate};                ///< For dates: the format.
  std::vector<DatePart> parts;                 ///< For dates: the parts, in the order of features.
  std::optional<std::chrono::sys_days> since;  ///< The origin of DatePart::days.
  /// For texts: turns them into features. Not a key of `columns`, whose entries have no encoder.
  std::shared_ptr<const TextEncoder> encoder = {};

  /// Returns the valid years of a column of dates.
  YearRange years() const { return since ? YearRange{}.with(*since) : YearRange{}; }
  bool is_feature() const {
    return encoder || (type != ColumnType::text && type != ColumnType::drop);
  }
  bool is_total() const { return encoder || (has_other() ? other : fill.has_value()); }
  /// Whether the key `other` makes the entry total, rather than the key `fill`.
  bool has_other() const { return type == ColumnType::category || type == ColumnType::date; }
  /// Returns the text to add to the entry to make it total.
  std::string remedy() const { return has_other() ? "other: true" : "fill: NUMBER"; }
};

/// Returns the parameter declarations of an entry's keys.
std::vector<privgrad::ParamSpec> column_params();

/// \param params  one entry.
/// \throws ConfigError if its keys contradict each other.
ColumnRule column_rule(const privgrad::Params& params);

/// \returns an entry from which column_rule() makes the same rule.
privgrad::Value to_value(const ColumnRule& rule);

/// Turns fields of one column into features. Threads: const functions may run concurrently.
///
/// A number is rounded to float32, and then scaled in double, so it is the same whether a program
/// passes float32 or writes a file.
class Column {
 public:
  enum class Found { value, none };  ///< none: missing or undeclared.

  /// \param missing  texts that mean a missing value, unless the rule declares them as values.
  Column(ColumnRule rule, std::string name, std::size_t field,
         const std::vector<std::string>& missing, bool decimal_comma);

  const std::string& name() const noexcept { return name_; }
  const ColumnRule& rule() const noexcept { return rule_; }
  std::size_t field() const noexcept { return field_; }  ///< The column's index in a row, from 0.
  std::size_t width() const noexcept { return width_; }  ///< Number of features.
  /// Returns one name for each feature: "age", "age=(missing)", "sex=f", "sex=(other)",
  /// "admitted.month=3".
  std::vector<std::string> feature_names() const;

  /// Returns the texts with a special meaning: values of categories and booleans, and texts for
  /// missing values, except where every other text means a missing value, too.
  std::vector<std::string> texts() const { return choices_.texts(); }
  /// Returns the numbers that mean a missing value in a column of numbers.
  const std::vector<float>& missing_numbers() const noexcept { return missing_numbers_; }
  /// Whether a source's column of numbers, or of days, can contain a value of this column.
  bool takes_numbers() const;
  bool takes_days() const;

  /// Writes width() features. With Found::none, they are the rule's features for missing or
  /// undeclared values, which are meaningful only if the rule is total.
  Found encode(std::string_view text, float* features) const {
    double value = 0.0;
    if (!is_plain_ || !read_number(text, decimal_comma_, value)) return encode_any(text, features);
    features[0] = static_cast<float>(value);
    return Found::value;
  }

  /// Returns "a finite number", "one of its values"...
  std::string expected() const;

 private:
  Found encode_any(std::string_view text, float* features) const;
  Found encode_number(std::string_view text, float* features) const;
  Found encode_choice(std::string_view text, float* features) const;
  Found encode_date(std::string_view text, float* features) const;
  /// \returns the day in the text; nothing if the day is missing, does not have the form, or is in
  ///   a year outside years().
  std::optional<std::chrono::sys_days> day_in(std::string_view text) const;
  bool is_missing(float number) const {
    return std::ranges::find(missing_numbers_, number) != missing_numbers_.end();
  }
  float scaled(double value) const;
  std::vector<std::string> date_feature_names() const;

  ColumnRule rule_;
  std::string name_;
  std::size_t field_;
  std::size_t width_ = 1;
  bool decimal_comma_;
  bool is_plain_ = false;  ///< Whether a number itself is its feature.
  std::vector<float> missing_numbers_;
  /// For dates: the texts for missing values. For categories: the feature for each value and for
  /// each text for a missing value. For booleans: 0 or 1.
  Choices choices_;
};

/// Chooses the columns that become features. They are in the order of the rules, and within a
/// pattern sorted by name, so that the order in a file does not matter.
/// \param names  the names of the table's columns, each once.
/// \param target  index of the column to predict; names.size() if no column is to be predicted.
/// \param by_place  whether a pattern's columns keep the table's order, as in tables without names.
/// \throws ConfigError if a column has no rule, or a feature's rule (except `*`) has no column.
std::vector<Column> choose_columns(const std::vector<ColumnRule>& rules,
                                   const std::vector<std::string>& names, std::size_t target,
                                   const std::vector<std::string>& missing, bool decimal_comma,
                                   bool by_place);

/// \returns whether `name` matches `pattern`, in which `*` stands for any characters.
bool matches(std::string_view pattern, std::string_view name);

/// \returns the text for a message: in quotes, shortened, and with unprintable bytes replaced.
std::string in_quotes(std::string_view text);
