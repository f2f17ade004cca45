#include "columns.hpp"

#include <cmath>
#include <utility>

#include "../files/shown_text.hpp"
#include "privgrad/error.hpp"
#include "privgrad/names.hpp"
#include "privgrad/value.hpp"

namespace {

using namespace privgrad;

const std::vector<std::string> kTypes = {"number", "boolean", "category", "date", "text", "drop"};

ColumnType type_named(const std::string& name) {
  const auto found = std::ranges::find(kTypes, name);
  return static_cast<ColumnType>(found - kTypes.begin() + 1);
}

/// The names of the parts, in the order of DatePart.
const std::vector<std::string> kParts = {"days", "day", "month", "weekday"};
const std::vector<std::string> kWeekdays = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};

std::size_t width_of(DatePart part) {
  constexpr std::size_t kWidths[] = {1, 1, 12, 7};
  return kWidths[static_cast<std::size_t>(part)];
}

std::string name_of(ColumnType type) { return kTypes[static_cast<std::size_t>(type) - 1]; }

/// Whether a type accepts this key, in addition to its name.
bool takes(ColumnType type, std::string_view key) {
  if (key == "min" || key == "max" || key == "unit")
    return type == ColumnType::number || type == ColumnType::date;
  if (key == "format" || key == "parts" || key == "since") return type == ColumnType::date;
  if (key == "fill") return type == ColumnType::number || type == ColumnType::boolean;
  if (key == "values") return type == ColumnType::boolean || type == ColumnType::category;
  if (key == "other") return type == ColumnType::category || type == ColumnType::date;
  return type == ColumnType::number || type == ColumnType::boolean || type == ColumnType::category;
}

void check_values(const ColumnRule& rule, const std::string& who) {
  const std::size_t count = rule.values.size();
  if (rule.type == ColumnType::category && count < 1)
    throw ConfigError(who + "a category needs its values: values: [a, b, c]");
  if (rule.type == ColumnType::boolean && count != 0 && count != 2)
    throw ConfigError(who + "the values of a boolean are two, the one that is false first");
  std::vector<std::string> sorted = rule.values;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end())
    throw ConfigError(who + "the value " + in_quotes(*twice) + " is there twice");
  for (const std::string& value : rule.values) {
    if (value.size() > kLongestName)
      throw ConfigError(who + "the value " + in_quotes(value) + " is longer than " +
                        std::to_string(kLongestName) + " bytes");
  }
}

void check_range(const ColumnRule& rule, const std::string& who) {
  const auto beyond = [](double x) { return !std::isfinite(static_cast<float>(x)); };
  for (const auto& number : {rule.min, rule.max, rule.fill}) {
    if (number && beyond(*number)) throw ConfigError(who + "a number is beyond float32");
  }
  if (rule.min && rule.max && *rule.min >= *rule.max)
    throw ConfigError(who + "min is not below max");
  if (rule.unit && !(rule.min && rule.max))
    throw ConfigError(who + "unit makes 0..1 of min..max, and needs both");
  if (rule.fill && ((rule.min && *rule.fill < *rule.min) || (rule.max && *rule.fill > *rule.max)))
    throw ConfigError(who + "fill is " + format_number(*rule.fill) +
                      ", which is outside of min..max");
  if (rule.type == ColumnType::boolean && rule.fill && (*rule.fill < 0.0 || *rule.fill > 1.0))
    throw ConfigError(who + "fill is " + format_number(*rule.fill) +
                      ", expected 0 (false) to 1 (true)");
}

void check_date(const ColumnRule& rule, const std::string& who) {
  if (rule.type != ColumnType::date) return;
  if (const std::string wrong = problem_of_date_format(rule.format); !wrong.empty())
    throw ConfigError(who + "format " + wrong + ", expected such as '%Y-%m-%d' or '%d.%m.%Y'");
  if (rule.parts.empty())
    throw ConfigError(who + "a date needs parts, what it becomes: parts: [days, month, weekday]");
  std::vector<DatePart> sorted = rule.parts;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end())
    throw ConfigError(who + "the part " + kParts[static_cast<std::size_t>(*twice)] +
                      " is there twice");
  const bool has_days = sorted.front() == DatePart::days;
  if (has_days && !rule.since)
    throw ConfigError(who + "the part days needs the day from which it counts: since: 2000-01-01");
  if (!has_days && (rule.since || rule.min || rule.max))
    throw ConfigError(who + "since, min, max and unit are of the part days, which parts lacks");
}

// The spellings of no; "false" is already a spelling of 0, and "true" of 1.
const std::vector<std::string> kNo = {"0", "no", "No", "NO", "f", "F", "n", "N"};
const std::vector<std::string> kYes = {"1", "yes", "Yes", "YES", "t", "T", "y", "Y"};

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 40;
  return "'" + shown_text(text, kShown) + (text.size() > kShown ? "...'" : "'");
}

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  // Matches each piece between two stars at its first occurrence, and the last piece at the end.
  for (;;) {
    const std::size_t next = pattern.find('*');
    if (next == pattern.npos) return name.size() >= pattern.size() && name.ends_with(pattern);
    const std::size_t found = name.find(pattern.substr(0, next));
    if (found == name.npos) return false;
    name.remove_prefix(found + next);
    pattern.remove_prefix(next + 1);
  }
}

std::vector<ParamSpec> column_params() {
  return {
      param::text("name",
                  "The column's name, with * for any characters; without a header its number, "
                  "counted from 0. For each column, the first entry that fits it counts.")
          .example("age"),
      param::text("type",
                  "number; boolean; category, which becomes a feature for each value, 1 for the "
                  "one that is there; date, which becomes a feature for each of its parts; text, "
                  "which no model here reads, and drop: left out.")
          .one_of(kTypes)
          .example("number"),
      param::list("values",
                  "Category: all values, declared, because reading them off private rows would "
                  "be a release. Boolean: the false and the true text; without them 0/1, no/yes, "
                  "n/y, false/true and f/t are understood.",
                  param::text("value", "One value."))
          .optional(),
      param::boolean("other",
                     "Category, date: one more feature, for missing and undeclared values. "
                     "Without it, such a row is an error.")
          .optional(),
      param::real("min", "Number, days of a date: lower values become it.").optional(),
      param::real("max", "Number, days of a date: higher values become it.").optional(),
      param::boolean("unit", "Number, days of a date: min..max becomes 0..1.").optional(),
      param::text(
          "format",
          "Date: its form, of %Y, %m and %d, and %H, %M, %S and %f, which are left out. Without "
          "it %Y-%m-%d; days in memory are of any form. A day before 1900 or the year of since, or "
          "after 2100, is invalid.")
          .optional(),
      param::list("parts",
                  "Date: its features. days, their number since a day; day of the month, 1 as 0 "
                  "and 31 as 1; month and weekday, a feature for each.",
                  param::text("part", "One part.").one_of(kParts))
          .optional(),
      param::text("since", "Date: the day, %Y-%m-%d, from which days are counted.").optional(),
      param::real("fill",
                  "Number, boolean (0 to 1): for a missing or invalid value. Without it such a "
                  "row is an error.")
          .optional(),
      param::boolean("indicator",
                     "One more feature, 1 where the value is missing (number, boolean: or "
                     "invalid).")
          .optional(),
  };
}

namespace {

void read_date(const Params& params, const std::string& who, ColumnRule& rule) {
  if (params.has("format")) rule.format = params.text("format");
  if (params.has("parts")) {
    for (const std::string& part : params.texts("parts"))
      rule.parts.push_back(static_cast<DatePart>(std::ranges::find(kParts, part) - kParts.begin()));
  }
  if (!params.has("since")) return;
  rule.since = date_in(params.text("since"), kIsoDate);
  if (!rule.since)
    throw ConfigError(who + "since is " + in_quotes(params.text("since")) +
                      ", expected a day as 2000-01-31");
}

}  // namespace

ColumnRule column_rule(const Params& params) {
  ColumnRule rule;
  rule.name = params.text("name");
  rule.type = type_named(params.text("type"));
  const std::string who = "data.columns: " + in_quotes(rule.name) + ": ";
  for (const char* key :
       {"values", "other", "min", "max", "unit", "fill", "indicator", "format", "parts", "since"}) {
    if (params.has(key) && !takes(rule.type, key))
      throw ConfigError(who + key + " does not apply to a column of type " + params.text("type"));
  }
  const auto real = [&](const char* key) {
    return params.has(key) ? std::optional(params.real(key)) : std::nullopt;
  };
  const auto flag = [&](const char* key) { return params.has(key) && params.boolean(key); };
  rule.min = real("min");
  rule.max = real("max");
  rule.fill = real("fill");
  rule.unit = flag("unit");
  rule.other = flag("other");
  rule.indicator = flag("indicator");
  if (params.has("values")) rule.values = params.texts("values");
  read_date(params, who, rule);
  if (rule.type == ColumnType::category && rule.indicator && !rule.other)
    throw ConfigError(who + "indicator needs other: true, so that every row has a place");
  if (!rule.has_other() && rule.indicator && !rule.fill)
    throw ConfigError(who + "indicator needs fill: what the value is where the indicator is 1");
  check_values(rule, who);
  check_range(rule, who);
  check_date(rule, who);
  return rule;
}

Value to_value(const ColumnRule& rule) {
  Value value{Value::Object{}};
  value.set("name", rule.name);
  value.set("type", name_of(rule.type));
  if (!rule.values.empty()) {
    Value::List values;
    for (const std::string& text : rule.values) values.emplace_back(text);
    value.set("values", std::move(values));
  }
  if (rule.type == ColumnType::date) {
    value.set("format", rule.format);
    Value::List parts;
    for (const DatePart part : rule.parts)
      parts.emplace_back(kParts[static_cast<std::size_t>(part)]);
    value.set("parts", std::move(parts));
  }
  if (rule.since) value.set("since", iso_date(*rule.since));
  if (rule.min) value.set("min", *rule.min);
  if (rule.max) value.set("max", *rule.max);
  if (rule.unit) value.set("unit", true);
  if (rule.fill) value.set("fill", *rule.fill);
  if (rule.other) value.set("other", true);
  if (rule.indicator) value.set("indicator", true);
  return value;
}

Column::Column(ColumnRule rule, std::string name, std::size_t field,
               const std::vector<std::string>& missing, bool decimal_comma)
    : rule_(std::move(rule)), name_(std::move(name)), field_(field), decimal_comma_(decimal_comma) {
  std::vector<std::pair<std::string, std::size_t>> declared;
  const auto put = [&](const std::vector<std::string>& texts, std::size_t place) {
    for (const std::string& text : texts) declared.emplace_back(text, place);
  };
  switch (rule_.type) {
    case ColumnType::category:
      width_ = rule_.values.size() + (rule_.other ? 1 : 0) + (rule_.indicator ? 1 : 0);
      for (std::size_t i = 0; i < rule_.values.size(); ++i) put({rule_.values[i]}, i);
      if (rule_.indicator) put(missing, width_ - 1);
      break;
    case ColumnType::date:
      width_ = rule_.other ? 1 : 0;
      for (const DatePart part : rule_.parts) width_ += width_of(part);
      put(missing, 0);  // a day that is declared as a missing value
      break;
    case ColumnType::boolean:
      width_ = rule_.indicator ? 2 : 1;
      put(rule_.values.empty() ? kNo : std::vector{rule_.values[0]}, 0);
      put(rule_.values.empty() ? kYes : std::vector{rule_.values[1]}, 1);
      break;
    case ColumnType::text:
      width_ = rule_.encoder->length();
      break;
    default:
      width_ = rule_.indicator ? 2 : 1;
      // Collects numbers that mean a missing value, such as -999 in some tables; texts that are not
      // numbers are missing anyway.
      for (const std::string& text : missing) {
        if (const auto number = number_in(text, decimal_comma))
          missing_numbers_.push_back(static_cast<float>(*number));
      }
      is_plain_ = missing_numbers_.empty() && !rule_.min && !rule_.max && !rule_.indicator;
  }
  choices_ = Choices(declared);
}

bool Column::takes_numbers() const {
  if (rule_.type == ColumnType::number) return true;
  if (rule_.type != ColumnType::date) return choices_.has_numbers();
  return rule_.format.find_first_not_of("%YmdHMSf") == rule_.format.npos;
}

bool Column::takes_days() const {
  const auto is_day = [](const std::string& text) { return date_in(text, kIsoDate).has_value(); };
  return rule_.type == ColumnType::date ||
         (rule_.type == ColumnType::category && std::ranges::any_of(rule_.values, is_day));
}

std::vector<std::string> Column::feature_names() const {
  if (rule_.type == ColumnType::date) return date_feature_names();
  if (rule_.type != ColumnType::category) {
    return rule_.indicator ? std::vector<std::string>{name_, name_ + "=(missing)"}
                           : std::vector<std::string>{name_};
  }
  std::vector<std::string> names;
  for (const std::string& value : rule_.values) names.push_back(name_ + "=" + value);
  if (rule_.other) names.push_back(name_ + "=(other)");
  if (rule_.indicator) names.push_back(name_ + "=(missing)");
  return names;
}

std::vector<std::string> Column::date_feature_names() const {
  std::vector<std::string> names;
  for (const DatePart part : rule_.parts) {
    const std::string name = name_ + "." + kParts[static_cast<std::size_t>(part)];
    if (width_of(part) == 1) names.push_back(name);
    for (std::size_t i = 0; i < width_of(part) && width_of(part) > 1; ++i)
      names.push_back(name + "=" +
                      (part == DatePart::month ? std::to_string(i + 1) : kWeekdays[i]));
  }
  if (rule_.other) names.push_back(name_ + "=(other)");
  return names;
}

std::string Column::expected() const {
  switch (rule_.type) {
    case ColumnType::boolean:
      return rule_.values.empty() ? "a boolean (0/1, no/yes, n/y, false/true or f/t)"
                                  : "one of its two values";
    case ColumnType::category:
      return "one of its " + std::to_string(rule_.values.size()) + " values";
    case ColumnType::date:
      return "a date of the form " + in_quotes(rule_.format) + " from " +
             std::to_string(static_cast<int>(rule_.years().first)) + " to " +
             std::to_string(static_cast<int>(rule_.years().last));
    default:
      return "a finite number";
  }
}

Column::Found Column::encode_any(std::string_view text, float* features) const {
  if (rule_.type == ColumnType::number) return encode_number(text, features);
  if (rule_.encoder) {
    rule_.encoder->encode(text, features);
    return Found::value;
  }
  return rule_.type == ColumnType::date ? encode_date(text, features)
                                        : encode_choice(text, features);
}

float Column::scaled(double value) const {
  if (rule_.min) value = std::max(value, *rule_.min);
  if (rule_.max) value = std::min(value, *rule_.max);
  if (rule_.unit) value = (value - *rule_.min) / (*rule_.max - *rule_.min);
  return static_cast<float>(value);
}

Column::Found Column::encode_number(std::string_view text, float* features) const {
  double value = 0.0;
  bool is_there = read_number(text, decimal_comma_, value);
  const auto rounded = static_cast<float>(value);
  is_there = is_there && !is_missing(rounded);
  features[0] = scaled(is_there ? static_cast<double>(rounded) : rule_.fill.value_or(0.0));
  if (rule_.indicator) features[1] = is_there ? 0.0f : 1.0f;
  return is_there ? Found::value : Found::none;
}

Column::Found Column::encode_choice(std::string_view text, float* features) const {
  const std::optional<std::size_t> found = choices_.find(text);
  if (rule_.type == ColumnType::boolean) {
    features[0] = found ? static_cast<float>(*found) : static_cast<float>(rule_.fill.value_or(0.0));
    if (rule_.indicator) features[1] = found ? 0.0f : 1.0f;
    return found ? Found::value : Found::none;
  }
  std::fill_n(features, width_, 0.0f);
  const std::size_t place = found.value_or(rule_.values.size());
  if (place < width_) features[place] = 1.0f;
  return place < rule_.values.size() ? Found::value : Found::none;
}

std::optional<std::chrono::sys_days> Column::day_in(std::string_view text) const {
  if (choices_.find(text) || choices_.find(without_midnight(text))) return std::nullopt;
  const auto day = written_date_in(text, rule_.format);
  return day && rule_.years().has(*day) ? day : std::nullopt;
}

Column::Found Column::encode_date(std::string_view text, float* features) const {
  std::fill_n(features, width_, 0.0f);
  const auto date = day_in(text);
  if (!date) {
    if (rule_.other) features[width_ - 1] = 1.0f;
    return Found::none;
  }
  const std::chrono::year_month_day day(*date);
  for (const DatePart part : rule_.parts) {
    switch (part) {
      case DatePart::days:
        features[0] = scaled(static_cast<double>((*date - *rule_.since).count()));
        break;
      case DatePart::day:
        features[0] = static_cast<float>(static_cast<unsigned>(day.day()) - 1) / 30.0f;
        break;
      case DatePart::month:
        features[static_cast<unsigned>(day.month()) - 1] = 1.0f;
        break;
      case DatePart::weekday:
        features[std::chrono::weekday(*date).iso_encoding() - 1] = 1.0f;
        break;
    }
    features += width_of(part);
  }
  return Found::value;
}

namespace {

/// Returns the index of the rule for each column; `names.size()` values.
std::vector<std::size_t> assign(const std::vector<ColumnRule>& rules,
                                const std::vector<std::string>& names, std::size_t target) {
  std::vector<std::size_t> rule_of(names.size(), rules.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == target) continue;
    const auto found = std::ranges::find_if(
        rules, [&](const ColumnRule& rule) { return matches(rule.name, names[i]); });
    if (found == rules.end()) {
      throw ConfigError("data.columns: no entry names the column " + in_quotes(names[i]) +
                        "; add one, {name: " + in_quotes(names[i]) +
                        ", type: drop} to leave it out");
    }
    rule_of[i] = static_cast<std::size_t>(found - rules.begin());
  }
  return rule_of;
}

void refuse_idle(const ColumnRule& rule, const std::vector<std::string>& names,
                 std::size_t target) {
  const std::string who =
      (rule.encoder ? "data.column: " : "data.columns: ") + in_quotes(rule.name);
  if (target < names.size() && rule.name == names[target])
    throw ConfigError(who + " is the target, which labels, target_fill and task describe");
  const bool is_there =
      std::ranges::any_of(names, [&](const std::string& name) { return matches(rule.name, name); });
  if (is_there) throw ConfigError(who + ": earlier entries name all the columns that it matches");
  throw ConfigError(who + ": the table has no such column" + did_you_mean(rule.name, names));
}

}  // namespace

std::vector<Column> choose_columns(const std::vector<ColumnRule>& rules,
                                   const std::vector<std::string>& names, std::size_t target,
                                   const std::vector<std::string>& missing, bool decimal_comma,
                                   bool by_place) {
  const std::vector<std::size_t> rule_of = assign(rules, names, target);
  std::vector<Column> chosen;
  for (std::size_t r = 0; r < rules.size(); ++r) {
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (rule_of[i] == r) own.push_back(i);
    }
    if (!rules[r].is_feature()) continue;  // a table may lack columns that are not features
    if (own.empty() && rules[r].name != "*") refuse_idle(rules[r], names, target);
    if (!by_place) std::ranges::sort(own, [&](auto a, auto b) { return names[a] < names[b]; });
    for (const std::size_t i : own)
      chosen.emplace_back(rules[r], names[i], i, missing, decimal_comma);
  }
  return chosen;
}
