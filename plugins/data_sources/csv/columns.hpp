#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "privgrad/params.hpp"

enum class ColumnType { number = 1, boolean, category, text, drop };

/// Names of columns and values are kept in model files, and in lists of features.
inline constexpr std::size_t kLongestName = 1000;

/// What a manifest declares of the columns whose names match: one entry of `columns`.
///
/// An entry is `total` if every text that may stand in a field becomes some features: then no row
/// can end a run, and whether its fields are as declared shows nowhere but in its own features.
struct ColumnRule {
  std::string name;  ///< `*` stands for any characters.
  ColumnType type = ColumnType::number;
  std::optional<double> min, max;  ///< Numbers beyond are brought to the nearer end.
  std::optional<double> fill;      ///< Instead of what is missing or no such value.
  bool unit = false;               ///< min..max becomes 0..1.
  bool other = false;              ///< Categories: a feature for all values that are not declared.
  bool indicator = false;          ///< One more feature: 1 where the value is missing or none.
  std::vector<std::string> values;

  bool is_feature() const { return type != ColumnType::text && type != ColumnType::drop; }
  bool is_total() const { return type == ColumnType::category ? other : fill.has_value(); }
};

/// The declaration of an entry's keys.
std::vector<privgrad::ParamSpec> column_params();

/// \param params  one entry.
/// \throws ConfigError  its keys contradict each other.
ColumnRule column_rule(const privgrad::Params& params);

/// \returns an entry that reads back as the rule.
privgrad::Value to_value(const ColumnRule& rule);

/// \returns the whole text as a number in float32's range. A leading plus and, with
///   `decimal_comma`, a comma instead of a point are understood.
std::optional<double> number_in(std::string_view text, bool decimal_comma);

/// Turns fields of one column into features. Threads: const functions may run concurrently.
class Column {
 public:
  enum class Found { value, none };  ///< None: missing, or no such value.

  /// \param missing  texts that mean a missing value, unless the rule declares them as values.
  Column(ColumnRule rule, std::string name, std::size_t field,
         const std::vector<std::string>& missing, bool decimal_comma);

  const std::string& name() const noexcept { return name_; }
  const ColumnRule& rule() const noexcept { return rule_; }
  std::size_t field() const noexcept { return field_; }  ///< Of a row, from 0.
  std::size_t width() const noexcept { return width_; }  ///< Number of features.
  /// One for each feature: "age", "age=(missing)", "sex=f", "sex=(other)".
  std::vector<std::string> feature_names() const;

  /// Writes width() features. With Found::none they are what the rule says of such values, which is
  /// nothing unless the rule is total.
  Found encode(std::string_view text, float* features) const;

  /// "a finite number", "one of its values"...
  std::string expected() const;

 private:
  Found encode_number(std::string_view text, float* features) const;
  Found encode_choice(std::string_view text, float* features) const;
  float scaled(double value) const;

  ColumnRule rule_;
  std::string name_;
  std::size_t field_;
  std::size_t width_ = 1;
  bool decimal_comma_;
  bool is_plain_ = false;  ///< A number is its feature.
  /// Of categories: the feature of each value and of each missing text; of booleans 0 or 1.
  std::map<std::string, std::size_t, std::less<>> places_;
};

/// Which columns of a table become features, in which order: that of the rules, and by name where a
/// rule has a pattern, so that it does not depend on the order in a file.
/// \param names  of the table's columns, each once.
/// \param target  index of the column that is predicted; names.size(): there is none.
/// \param by_place  patterns keep the table's order instead: tables without names.
/// \throws ConfigError  a column that no rule names, or a rule that names none.
std::vector<Column> choose_columns(const std::vector<ColumnRule>& rules,
                                   const std::vector<std::string>& names, std::size_t target,
                                   const std::vector<std::string>& missing, bool decimal_comma,
                                   bool by_place);

/// \returns whether `name` is `pattern`, in which `*` stands for any characters.
bool matches(std::string_view pattern, std::string_view name);

/// \returns the text in quotes, shortened and with unprintable bytes replaced, fit for a message.
std::string in_quotes(std::string_view text);
