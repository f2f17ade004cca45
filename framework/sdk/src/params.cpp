#include "privgrad/params.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/names.hpp"

namespace privgrad {
namespace {

/// Returns the smallest number of insertions, deletions, substitutions and swaps of neighbouring
/// letters that turns `a` into `b`, changing each letter at most once (the optimal string alignment
/// distance).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

std::string_view type_name(ParamType type) {
  switch (type) {
    case ParamType::boolean:
      return "a boolean (true or false)";
    case ParamType::integer:
      return "an integer";
    case ParamType::real:
      return "a real";
    case ParamType::text:
      return "a text";
    case ParamType::path:
      return "a path";
    case ParamType::list:
      return "a list";
    case ParamType::object:
      return "an object";
  }
  return "?";
}

std::string range_text(const ParamSpec& spec) {
  std::string text = spec.min_exclusive || !spec.min ? "(" : "[";
  text += spec.min ? format_number(*spec.min) : "-inf";
  text += ", ";
  text += spec.max ? format_number(*spec.max) : "inf";
  text += spec.max_exclusive || !spec.max ? ")" : "]";
  if (!spec.unit.empty()) text += " " + spec.unit;
  return text;
}

bool in_range(const ParamSpec& spec, double value) {
  if (!std::isfinite(value)) return false;
  if (spec.min && (spec.min_exclusive ? value <= *spec.min : value < *spec.min)) return false;
  return !(spec.max && (spec.max_exclusive ? value >= *spec.max : value > *spec.max));
}

/// Whether quotes would make the value a text.
bool is_bare(const Value& value) {
  return std::holds_alternative<bool>(value.data()) ||
         std::holds_alternative<std::int64_t>(value.data()) ||
         std::holds_alternative<double>(value.data());
}

bool is_the_word_auto(const Value& value) {
  const auto* text = std::get_if<std::string>(&value.data());
  return text != nullptr && *text == "auto";
}

class Checker {
 public:
  explicit Checker(std::vector<Problem>& problems) : problems_(problems) {}

  Value object(const std::vector<ParamSpec>& specs, const Value& given, const std::string& where,
               const std::vector<std::string_view>& ignored) {
    Value result{Value::Object{}};
    result.mark = given.mark;
    if (!given.is_null() && !std::holds_alternative<Value::Object>(given.data())) {
      report(given.mark, where, "is " + std::string(given.type_name()) + ", expected an object");
      return result;
    }
    for (const ParamSpec& spec : specs) {
      const Value* value = given.find(spec.name);
      const std::string path = where.empty() ? spec.name : where + "." + spec.name;
      if (value != nullptr) {
        result.set(spec.name, one(spec, *value, path));
      } else if (spec.default_value) {
        result.set(spec.name, *spec.default_value);
      } else if (spec.required) {
        report(given.mark, path, "is missing; " + spec.doc);
      }
    }
    report_unknown(specs, given, where, ignored);
    return result;
  }

 private:
  Value one(const ParamSpec& spec, const Value& value, const std::string& where) {
    if (spec.takes_auto && is_the_word_auto(value)) return value;
    switch (spec.type) {
      case ParamType::boolean:
        if (std::holds_alternative<bool>(value.data())) return value;
        break;
      case ParamType::integer:
        if (const auto* number = std::get_if<std::int64_t>(&value.data())) {
          if (!in_range(spec, static_cast<double>(*number))) {
            report_range(spec, value, where, std::to_string(*number));
          }
          return value;
        }
        break;
      case ParamType::real: {
        // An integer literal is accepted as a real number; nothing else converts silently.
        double number = 0.0;
        if (const auto* integer = std::get_if<std::int64_t>(&value.data())) {
          number = static_cast<double>(*integer);
        } else if (const auto* real = std::get_if<double>(&value.data())) {
          number = *real;
        } else {
          break;
        }
        if (!in_range(spec, number)) report_range(spec, value, where, format_number(number));
        Value result(number);
        result.mark = value.mark;
        return result;
      }
      case ParamType::text:
      case ParamType::path:
        if (const auto* text = std::get_if<std::string>(&value.data())) {
          if (!spec.choices.empty() &&
              std::ranges::find(spec.choices, *text) == spec.choices.end()) {
            report(value.mark, where,
                   "is '" + *text + "', allowed are " + listed(spec.choices) +
                       did_you_mean(*text, spec.choices));
          } else if (spec.type == ParamType::path && text->empty()) {
            report(value.mark, where, "is an empty path");
          }
          return value;
        }
        break;
      case ParamType::list:
        if (const auto* items = std::get_if<Value::List>(&value.data())) {
          return list(spec, value, *items, where);
        }
        break;
      case ParamType::object:
        if (std::holds_alternative<Value::Object>(value.data()))
          return object(spec.fields, value, where, {});
        break;
    }
    report(value.mark, where,
           "is " + std::string(value.type_name()) + ", expected " +
               std::string(type_name(spec.type)) + (spec.takes_auto ? " or auto" : "") +
               (spec.type == ParamType::text && spec.choices.empty() && is_bare(value)
                    ? "; put it in quotes"
                    : ""));
    return value;
  }

  Value list(const ParamSpec& spec, const Value& value, const Value::List& items,
             const std::string& where) {
    if (items.size() < spec.min_items) {
      report(value.mark, where,
             "has " + std::to_string(items.size()) + " element(s), expected at least " +
                 std::to_string(spec.min_items));
    }
    Value::List checked;
    checked.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      checked.push_back(one(spec.element.front(), items[i], where + "." + std::to_string(i)));
    }
    Value result(std::move(checked));
    result.mark = value.mark;
    return result;
  }

  void report_unknown(const std::vector<ParamSpec>& specs, const Value& given,
                      const std::string& where, const std::vector<std::string_view>& ignored) {
    const auto* object = std::get_if<Value::Object>(&given.data());
    if (object == nullptr) return;
    std::vector<std::string> names;
    names.reserve(specs.size());
    for (const ParamSpec& spec : specs) names.push_back(spec.name);
    for (const Value::Member& member : *object) {
      const bool known = std::ranges::find(names, member.key) != names.end() ||
                         std::ranges::find(ignored, member.key) != ignored.end();
      if (known) continue;
      report(member.key_mark, where.empty() ? member.key : where + "." + member.key,
             "is unknown" + (names.empty() ? "; there are no parameters here"
                                           : nearest_or_all(member.key, names)));
    }
  }

  void report_range(const ParamSpec& spec, const Value& value, const std::string& where,
                    const std::string& number) {
    report(value.mark, where, "is " + number + ", allowed is " + range_text(spec));
  }

  void report(Mark mark, std::string where, std::string what) {
    problems_.push_back({mark, std::move(where), std::move(what)});
  }

  std::vector<Problem>& problems_;
};

template <class T>
const T& as(const Value& value, std::string_view name) {
  if (const T* data = std::get_if<T>(&value.data())) return *data;
  throw PluginError("a component asked for parameter '" + std::string(name) + "', which is " +
                    std::string(value.type_name()) + ", as another type");
}

/// A range that is given to a list applies to its elements.
ParamSpec& numbers_of(ParamSpec& spec) {
  return spec.type == ParamType::list ? numbers_of(spec.element.front()) : spec;
}

ParamSpec make_spec(ParamType type, std::string name, std::string doc) {
  ParamSpec spec;
  spec.name = std::move(name);
  spec.doc = std::move(doc);
  spec.type = type;
  return spec;
}

}  // namespace

ParamSpec::ParamSpec() = default;
ParamSpec::ParamSpec(const ParamSpec&) = default;
ParamSpec::ParamSpec(ParamSpec&&) noexcept = default;
ParamSpec& ParamSpec::operator=(const ParamSpec&) = default;
ParamSpec& ParamSpec::operator=(ParamSpec&&) noexcept = default;
ParamSpec::~ParamSpec() = default;

ParamSpec&& ParamSpec::at_least(double value) && {
  ParamSpec& numbers = numbers_of(*this);
  numbers.min = value;
  numbers.min_exclusive = false;
  return std::move(*this);
}
ParamSpec&& ParamSpec::above(double value) && {
  ParamSpec& numbers = numbers_of(*this);
  numbers.min = value;
  numbers.min_exclusive = true;
  return std::move(*this);
}
ParamSpec&& ParamSpec::at_most(double value) && {
  ParamSpec& numbers = numbers_of(*this);
  numbers.max = value;
  numbers.max_exclusive = false;
  return std::move(*this);
}
ParamSpec&& ParamSpec::below(double value) && {
  ParamSpec& numbers = numbers_of(*this);
  numbers.max = value;
  numbers.max_exclusive = true;
  return std::move(*this);
}
ParamSpec&& ParamSpec::or_auto() && {
  takes_auto = true;
  return std::move(*this);
}
ParamSpec&& ParamSpec::or_pattern() && {
  takes_pattern = true;
  return std::move(*this);
}

ParamSpec&& ParamSpec::of_folder() && {
  is_folder = true;
  return std::move(*this);
}
ParamSpec&& ParamSpec::one_of(std::vector<std::string> values) && {
  choices = std::move(values);
  return std::move(*this);
}
ParamSpec&& ParamSpec::in_unit(std::string value) && {
  unit = std::move(value);
  return std::move(*this);
}
ParamSpec&& ParamSpec::at_least_items(std::size_t count) && {
  min_items = count;
  return std::move(*this);
}
ParamSpec&& ParamSpec::defaults_to(Value value) && {
  // `real("x", ...).defaults_to(1)` means 1.0.
  if (const auto* integer = std::get_if<std::int64_t>(&value.data());
      integer != nullptr && type == ParamType::real) {
    value = Value(static_cast<double>(*integer));
  }
  default_value = std::move(value);
  required = false;
  return std::move(*this);
}
ParamSpec&& ParamSpec::optional() && {
  required = false;
  return std::move(*this);
}
ParamSpec&& ParamSpec::example(Value value) && {
  example_value = std::move(value);
  return std::move(*this);
}

namespace param {
ParamSpec boolean(std::string name, std::string doc) {
  return make_spec(ParamType::boolean, std::move(name), std::move(doc));
}
ParamSpec integer(std::string name, std::string doc) {
  return make_spec(ParamType::integer, std::move(name), std::move(doc));
}
ParamSpec real(std::string name, std::string doc) {
  return make_spec(ParamType::real, std::move(name), std::move(doc));
}
ParamSpec text(std::string name, std::string doc) {
  return make_spec(ParamType::text, std::move(name), std::move(doc));
}
ParamSpec path(std::string name, std::string doc) {
  return make_spec(ParamType::path, std::move(name), std::move(doc));
}
ParamSpec list(std::string name, std::string doc, ParamSpec element) {
  ParamSpec spec = make_spec(ParamType::list, std::move(name), std::move(doc));
  spec.element.push_back(std::move(element));
  return spec;
}
ParamSpec object(std::string name, std::string doc, std::vector<ParamSpec> fields) {
  ParamSpec spec = make_spec(ParamType::object, std::move(name), std::move(doc));
  spec.fields = std::move(fields);
  return spec;
}
}  // namespace param

Params Params::check(const std::vector<ParamSpec>& specs, const Value& given,
                     std::vector<Problem>& problems, const std::vector<std::string_view>& ignored) {
  return Params(Checker(problems).object(specs, given, "", ignored));
}

Params Params::make(std::string_view component, const std::vector<ParamSpec>& specs,
                    const Value& given) {
  std::vector<Problem> problems;
  Params result = check(specs, given, problems);
  if (problems.empty()) return result;
  std::string message(component);
  for (const Problem& problem : problems) {
    message += (&problem == &problems.front() ? ": " : "; ") + problem.where + ": " + problem.what;
  }
  throw ConfigError(message);
}

const Value& Params::at(std::string_view name) const {
  if (const Value* value = value_.find(name)) return *value;
  throw PluginError("a component asked for parameter '" + std::string(name) +
                    "', which it does not declare or which was not given");
}

bool Params::has(std::string_view name) const { return value_.find(name) != nullptr; }
bool Params::is_auto(std::string_view name) const {
  const Value* value = value_.find(name);
  return value != nullptr && is_the_word_auto(*value);
}
double Params::real(std::string_view name) const { return as<double>(at(name), name); }
std::int64_t Params::integer(std::string_view name) const {
  return as<std::int64_t>(at(name), name);
}
bool Params::boolean(std::string_view name) const { return as<bool>(at(name), name); }
const std::string& Params::text(std::string_view name) const {
  return as<std::string>(at(name), name);
}
std::filesystem::path Params::path(std::string_view name) const {
  return as<std::string>(at(name), name);
}

std::vector<double> Params::reals(std::string_view name) const {
  std::vector<double> out;
  for (const Value& item : as<Value::List>(at(name), name)) out.push_back(as<double>(item, name));
  return out;
}

std::vector<std::int64_t> Params::integers(std::string_view name) const {
  std::vector<std::int64_t> out;
  for (const Value& item : as<Value::List>(at(name), name))
    out.push_back(as<std::int64_t>(item, name));
  return out;
}

std::vector<std::string> Params::texts(std::string_view name) const {
  std::vector<std::string> out;
  for (const Value& item : as<Value::List>(at(name), name))
    out.push_back(as<std::string>(item, name));
  return out;
}

Params Params::object(std::string_view name) const {
  as<Value::Object>(at(name), name);
  return Params(at(name));
}

std::vector<Params> Params::objects(std::string_view name) const {
  std::vector<Params> out;
  for (const Value& item : as<Value::List>(at(name), name)) {
    as<Value::Object>(item, name);
    out.push_back(Params(item));
  }
  return out;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  // A text that differs in more than a third of its length is a different word, not a typing error.
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  if (name.size() > 200) return best;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  std::string nearest = nearest_name(name, candidates);
  std::ranges::replace_if(
      nearest, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

std::string nearest_or_all(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string hint = did_you_mean(name, candidates);
  return hint.empty() ? "; there are " + listed(candidates) : hint;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace privgrad
