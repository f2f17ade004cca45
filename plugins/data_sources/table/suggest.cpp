#include "suggest.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "../files/shown_text.hpp"
#include "privgrad/error.hpp"

namespace {

using namespace privgrad;

constexpr std::size_t kMostCategories = 50;
constexpr std::size_t kMostClasses = 100;
/// The number of values that suffice to see whether a column has many different values.
constexpr std::size_t kMostCounted = 100'000;

/// The recognised forms of dates. If the values fit two forms without a time of day, such as
/// %d/%m/%Y and %m/%d/%Y, the form is ambiguous and no date is suggested.
constexpr std::array<std::string_view, 7> kDateFormats = {
    kIsoDate,   "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d",
    "%d.%m.%Y", "%d/%m/%Y",          "%m/%d/%Y"};

bool has_time(std::size_t format) { return !time_directive(kDateFormats[format]).empty(); }

bool is_whole(double x) { return x == std::floor(x); }

/// Whether a text is a number with commas between its thousands.
bool has_thousands(std::string_view text) {
  static const std::regex form(R"([-+]?\d{1,3}(,\d{3})+(\.\d+)?)");
  return text.size() < 40 && std::regex_match(text.begin(), text.end(), form);
}

/// Facts about one column, collected from its values.
class Seen {
 public:
  explicit Seen(std::string name) : name_(std::move(name)) {}

  const std::string& name() const noexcept { return name_; }
  const std::set<std::string, std::less<>>& values() const noexcept { return values_; }

  void add(std::string_view text, const TableForm& form) {
    ++rows_;
    if (std::ranges::find(form.missing, text) != form.missing.end()) {
      ++missing_;
      return;
    }
    if (values_.size() <= kMostClasses && values_.find(text) == values_.end())
      values_.emplace(text);
    if (counted_.size() < kMostCounted) {
      counted_.insert(std::hash<std::string_view>()(text));
      ++counted_values_;
    }
    look_at_dates(text);
    const auto number = number_in(text, form.decimal_comma);
    if (!number) {
      ++others_;
      if (has_thousands(text)) ++thousands_;
      return;
    }
    are_whole_ = are_whole_ && is_whole(*number);
    counts_rows_ = counts_rows_ && others_ == 0 && missing_ == 0 && is_whole(*number) &&
                   (rows_ == 1 ? *number == 0.0 || *number == 1.0
                               : *number == least_ + static_cast<double>(rows_ - 1));
    least_ = std::min(least_, *number);
    most_ = std::max(most_, *number);
    sum_ += *number;
  }

  /// Returns the index of the only date format that all values have; if none fits all, of the only
  /// format that nine in ten values have; nothing if several fit or none does.
  std::optional<std::size_t> date_format() const {
    for (const bool all : {true, false}) {
      const auto fits = [&](std::uint64_t days) {
        return has_values() && (all ? days == rows_ - missing_ : are_most(days));
      };
      std::optional<std::size_t> found;
      for (std::size_t i = 0; i < days_.size(); ++i) {
        // If the time of day is always midnight, the preceding form, without a time, is used.
        if (!fits(days_[i]) || (found && has_time(i))) continue;
        if (found) return std::nullopt;
        found = i;
      }
      if (found) return found;
    }
    return std::nullopt;
  }

  /// Returns the values, in the form of the declaration.
  std::vector<std::string> texts() const {
    for (const std::string& value : values_) {
      if (const std::string wrong = encoding_problem(value); !wrong.empty())
        throw IoError("a value of the column " + in_quotes(name_) + " " + wrong);
    }
    return {values_.begin(), values_.end()};
  }

  bool has_values() const { return missing_ < rows_; }
  bool are_numbers() const { return others_ == 0 && has_values(); }
  bool are_mostly_numbers() const { return are_most(rows_ - missing_ - others_); }
  double least() const { return least_; }
  double most() const { return most_; }

  /// Whether the values are 0, 1, ... or 1, 2, ..., and the name is typical of an index.
  bool looks_like_index() const { return are_numbers() && counts_rows_ && is_named_as_id(); }

  /// Whether the values are texts or integers, there are many different values, and nearly all of
  /// them occur only once.
  bool looks_like_id() const {
    constexpr std::size_t kMany = 1000;
    const std::uint64_t few = is_named_as_id() ? 2 * kMostCategories : kMany;
    return (are_whole_ || others_ > 0) && counted_.size() > few &&
           static_cast<double>(counted_.size()) >= kMost * static_cast<double>(counted_values_);
  }

  bool is_boolean() const {
    ColumnRule boolean;
    boolean.type = ColumnType::boolean;
    const Column column(boolean, name_, 0, {}, false);
    float feature = 0.0f;
    return has_values() && values_.size() <= 2 &&
           std::ranges::all_of(values_, [&](const std::string& text) {
             return column.encode(text, &feature) == Column::Found::value;
           });
  }

  /// Whether there are few different values, at most half as many as rows.
  bool is_category() const {
    return has_values() && values_.size() <= kMostCategories && 2 * values_.size() <= rows_;
  }

  ColumnRule rule() const {
    ColumnRule rule;
    rule.name = name_;
    rule.indicator = missing_ > 0;
    const bool is_constant = values_.size() == 1 && missing_ == 0;
    if (!has_values() || is_constant || looks_like_index() ||
        (is_named_as_id() && looks_like_id())) {
      rule.type = ColumnType::drop;
    } else if (is_boolean()) {
      rule.type = ColumnType::boolean;
      rule.fill = 0.5;
    } else if (are_numbers()) {
      make_number(rule);
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
    } else if (are_mostly_numbers()) {
      make_number(rule);
      rule.indicator = true;
    } else {
      rule.type = ColumnType::text;
    }
    if (!rule.is_feature()) rule.indicator = false;
    return rule;
  }

  /// Returns a note on what the user should check in the rule; "" for most columns.
  std::string note(const ColumnRule& rule) const {
    const std::string counts = std::to_string(counted_.size()) + " different values in " +
                               std::to_string(counted_values_) + " rows";
    const auto misfits = [&](std::uint64_t fit, const std::string& are, const std::string& become) {
      const std::uint64_t others = rows_ - missing_ - fit;
      if (others == 0) return std::string();
      return std::to_string(others) + " of " + std::to_string(rows_) + " values are no " + are +
             ", and become " + become;
    };
    if (!has_values()) return "every value is missing: left out";
    if (rule.type == ColumnType::drop && looks_like_id())
      return counts + ", as an identifier has: left out";
    if (rule.type == ColumnType::drop && !looks_like_index())
      return "every value is the same: left out";
    if (rule.type == ColumnType::date)
      return misfits(days_[*date_format()], "dates of the form " + rule.format, "other");
    if (rule.type == ColumnType::text && are_most(thousands_))
      return "numbers with commas between their thousands are text here: left out; write them "
             "without";
    if (rule.type == ColumnType::text)
      return "text, which no model here reads (" + counts + "): left out";
    if (rule.type != ColumnType::number) return "";
    if (looks_like_id()) return counts + ": if they identify rows, say type: drop";
    return misfits(rows_ - missing_ - others_, "numbers", "the fill");
  }

  /// Returns a note on the class or number that missing values of a target become; "" if no value
  /// is missing.
  std::string missing_note(const std::string& fill) const {
    return missing_ == 0 ? ""
                         : std::to_string(missing_) + " of " + std::to_string(rows_) +
                               " values are missing, and count as " + fill;
  }

  /// Returns the mean, rounded to three digits, within the range.
  double fill() const {
    const double mean = sum_ / static_cast<double>(rows_ - missing_ - others_);
    if (mean == 0.0 || !std::isfinite(mean)) return std::clamp(0.0, least_, most_);
    const double step = std::pow(10.0, std::floor(std::log10(std::abs(mean))) - 2.0);
    return std::clamp(step >= 1.0 ? std::round(mean / step) * step
                                  : std::round(mean / step) / std::round(1.0 / step),
                      least_, most_);
  }

 private:
  static constexpr double kMost = 0.9;

  bool are_most(std::uint64_t values) const {
    return has_values() &&
           static_cast<double>(values) >= kMost * static_cast<double>(rows_ - missing_);
  }

  bool is_named_as_id() const {
    return is_index_name(name_) || name_ == "id" || name_ == "ID" || name_.ends_with("_id");
  }

  void make_number(ColumnRule& rule) const {
    rule.fill = fill();
    if (least_ == most_) return;
    rule.min = least_;
    rule.max = most_;
    rule.unit = true;
  }

  void look_at_dates(std::string_view text) {
    for (std::size_t i = 0; i < kDateFormats.size(); ++i) {
      // A form that fits too few of many values is not tried any more.
      constexpr std::uint64_t kEnough = 1000;
      if (rows_ > kEnough && 2 * days_[i] < rows_ - missing_) continue;
      const auto day =
          has_time(i) ? date_in(text, kDateFormats[i]) : written_date_in(text, kDateFormats[i]);
      if (!day) continue;
      first_days_[i] = days_[i] == 0 ? *day : std::min(first_days_[i], *day);
      last_days_[i] = days_[i] == 0 ? *day : std::max(last_days_[i], *day);
      ++days_[i];
    }
  }

  std::string name_;
  std::uint64_t rows_ = 0, missing_ = 0;
  std::set<std::string, std::less<>> values_;
  std::unordered_set<std::size_t> counted_;  ///< Hashes of values.
  std::uint64_t counted_values_ = 0;         ///< The number of values counted.
  std::uint64_t others_ = 0;                 ///< The number of values that are not numbers.
  /// The number of values that are numbers with commas between thousands.
  std::uint64_t thousands_ = 0;
  bool are_whole_ = true;
  bool counts_rows_ = true;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0.0;
  /// The number of values that are dates of each form.
  std::array<std::uint64_t, kDateFormats.size()> days_{};
  std::array<std::chrono::sys_days, kDateFormats.size()> first_days_{}, last_days_{};
};

bool are_class_indices(const Seen& target) {
  return target.are_numbers() && target.values().size() <= kMostClasses && target.least() >= 0.0 &&
         target.most() < static_cast<double>(kMostClasses) &&
         std::ranges::all_of(target.values(), [](const std::string& text) {
           const auto number = number_in(text, false);
           return number && is_whole(*number);
         });
}

/// \returns the class or number that missing values of the target become, in words.
std::string add_target(const Seen& target, Value& params) {
  if (are_class_indices(target)) {
    params.set("classes", std::max(2, static_cast<int>(target.most()) + 1));
    params.set("target_fill", 0);
    return "class 0";
  }
  if (target.are_numbers()) {
    params.set("task", "regression");
    params.set("target_fill", target.fill());
    return "the mean";
  }
  if (target.values().size() < 2 || target.values().size() > kMostClasses) {
    throw IoError("data.target: the column " + in_quotes(target.name()) +
                  " has neither numbers nor 2 to " + std::to_string(kMostClasses) + " labels");
  }
  std::vector<std::string> labels = target.texts();
  params.set("other_label", labels.front());
  params.set("labels", Value::List(labels.begin(), labels.end()));
  return in_quotes(labels.front()) + ", the first label";
}

struct Look {
  std::vector<Seen> seen;    ///< The columns.
  bool spans_lines = false;  ///< Whether any row spans several lines.
};

/// Collects facts about all rows.
Look look(const std::vector<TablePart>& parts, const TableForm& form) {
  Look look;
  std::vector<Seen>& seen = look.seen;
  for (const TablePart& part : parts) {
    const std::unique_ptr<TextRows> rows = part.open(true);
    std::vector<std::size_t> places;
    for (const std::string& name : rows->read_names()) {
      auto place =
          std::ranges::find_if(seen, [&](const Seen& column) { return column.name() == name; });
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
    made.numbers += column.are_mostly_numbers() ? 1 : 0;
    if (column.name() == target) {
      const std::string fill = add_target(column, made.params);
      if (const std::string note = column.missing_note(fill); !note.empty())
        made.notes.push_back(in_quotes(target) + ": " + note);
    } else {
      const ColumnRule rule = column.rule();
      if (const std::string note = column.note(rule); !note.empty())
        made.notes.push_back(in_quotes(column.name()) + ": " + note);
      columns.push_back(to_value(rule));
    }
  }
  if (std::ranges::find(names, target) == names.end()) refuse_target(target, names);
  made.params.set("columns", std::move(columns));
  return made;
}
