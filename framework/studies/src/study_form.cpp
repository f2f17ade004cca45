#include "study_form.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/names.hpp"
#include "study_labels.hpp"
#include "study_values.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// JSON Schema's name for the type of a value.
std::string type_of(const Value& node) {
  constexpr std::array kTypes{"null", "boolean", "integer", "number", "string", "array", "object"};
  return kTypes[node.data().index()];
}

/// The types that a schema allows, for messages: "a list or an object".
std::string words_of(const Json& schema) {
  if (schema.contains("if")) return words_of(schema["then"]) + " or " + words_of(schema["else"]);
  static const std::map<std::string, std::string> words{
      {"boolean", "true or false"}, {"integer", "an integer"}, {"number", "a number"},
      {"string", "a text"},         {"array", "a list"},       {"object", "an object"}};
  return words.at(schema.value("type", "object"));
}

class Checker {
 public:
  explicit Checker(ManifestProblems& problems) : problems_(problems) {}

  /// \param all  the schema of which `schema` is a branch, for messages.
  void check(const Json& schema, const Value& node, const std::string& where,
             const Json* all = nullptr) {
    if (schema.is_boolean()) return;
    const std::string type = type_of(node);
    if (schema.contains("if")) {
      const bool is_it = schema["if"]["type"] == type;
      return check(schema[is_it ? "then" : "else"], node, where, all == nullptr ? &schema : all);
    }
    // All references are to the schema of a manifest.
    const std::string wanted = schema.value("type", schema.contains("$ref") ? "object" : type);
    if (wanted != type && !(wanted == "number" && type == "integer")) {
      const Json& whole = all == nullptr ? schema : *all;
      const std::string doc = whole.value("description", "");
      problems_.add(node.mark, where,
                    "is " + std::string(node.type_name()) + ", expected " + words_of(whole) +
                        (doc.empty() ? "" : "; " + doc));
    } else if (type == "object") {
      check_object(schema, node, where);
    } else if (type == "array") {
      check_list(schema, node, where);
    } else if (type == "string") {
      check_choice(schema, node, where);
    } else if (type == "integer" || type == "number") {
      check_number(schema, node, where);
    }
  }

 private:
  void check_size(std::size_t size, std::size_t least, std::size_t most, Mark mark,
                  const std::string& where) {
    if (size < least) problems_.add(mark, where, "is empty");
    if (size > most) problems_.add(mark, where, "has more elements than " + std::to_string(most));
  }

  void check_list(const Json& schema, const Value& node, const std::string& where) {
    const Value::List& items = *items_of(node);
    check_size(items.size(), schema.value("minItems", std::size_t{0}),
               schema.value("maxItems", items.size()), node.mark, where);
    for (auto item = items.begin(); item != items.end(); ++item) {
      check(schema["items"], *item, where + "." + std::to_string(item - items.begin()));
      const bool is_there = std::any_of(
          items.begin(), item, [&](const Value& other) { return same_value(other, *item); });
      if (is_there && schema.value("uniqueItems", false))
        problems_.add(item->mark, where, "has " + value_to_json(*item).dump() + " twice");
    }
  }

  void check_object(const Json& schema, const Value& node, const std::string& where) {
    const Value::Object& members = *members_of(node);
    check_size(members.size(), schema.value("minProperties", std::size_t{0}), members.size(),
               node.mark, where);
    if (schema.contains("not") && node.find("kind") != nullptr)
      problems_.add(node.mark, where,
                    "is one component, expected a list of values or {NAME: VALUE, ...}");
    const std::string before = where.empty() ? "" : where + ".";
    const Json known = schema.value("properties", Json::object());
    for (const Value::Member& member : members) {
      if (schema.contains("propertyNames")) check_key(member, before + member.key);
      if (known.contains(member.key)) {
        check(known[member.key], member.value, before + member.key);
      } else if (const Json others = schema.value("additionalProperties", Json(true));
                 others != false) {
        check(others, member.value, before + member.key);
      } else {
        refuse_unknown(known, member, before + member.key);
      }
    }
    for (const std::string name : schema.value("required", Json::array())) {
      if (node.find(name) == nullptr)
        problems_.add(node.mark, before + name,
                      "is missing; " + known[name]["description"].get<std::string>());
    }
  }

  void refuse_unknown(const Json& known, const Value::Member& member, const std::string& where) {
    std::vector<std::string> names;
    for (const auto& [name, schema] : known.items()) names.push_back(name);
    problems_.add(member.key_mark, where, "is unknown" + nearest_or_all(member.key, names));
  }

  /// Refuses keys that the study itself sets or that no study may change, and keys that are not
  /// dotted.
  void check_key(const Value::Member& member, const std::string& where) {
    const std::string& key = member.key;
    const auto refuse = [&](const char* why) { problems_.add(member.key_mark, where, why); };
    if (key == "seed") refuse("is the study's own: list the seeds under seeds");
    if (key == "privgrad" || key == "name") refuse("cannot be changed by a study");
    if (key == "privacy.calibrate") refuse("is the study's own: it follows from equal_privacy");
    const bool is_dotted =
        !key.empty() && key.front() != '.' && key.back() != '.' && key.find("..") == key.npos;
    if (!is_dotted) refuse("is not of the form a.b.c");
  }

  void check_choice(const Json& schema, const Value& node, const std::string& where) {
    if (!schema.contains("enum")) return;
    const auto names = schema["enum"].get<std::vector<std::string>>();
    const std::string& text = std::get<std::string>(node.data());
    if (std::ranges::find(names, text) != names.end()) return;
    problems_.add(
        node.mark, where,
        "is " + in_quotes(text) + ", allowed are " + listed(names) + did_you_mean(text, names));
  }

  void check_number(const Json& schema, const Value& node, const std::string& where) {
    const auto* whole = std::get_if<std::int64_t>(&node.data());
    const double number =
        whole != nullptr ? static_cast<double>(*whole) : std::get<double>(node.data());
    const bool fits = std::isfinite(number) && schema.value("minimum", number) <= number &&
                      schema.value("maximum", number) >= number &&
                      (!schema.contains("exclusiveMinimum") || schema["exclusiveMinimum"] < number);
    if (!fits) {
      problems_.add(node.mark, where,
                    "is " + format_number(number) + ", allowed is " + range(schema));
    }
  }

  static std::string range(const Json& schema) {
    if (schema.contains("exclusiveMinimum")) return "above " + schema["exclusiveMinimum"].dump();
    return schema["minimum"].dump() +
           (schema.contains("maximum") ? " to " + schema["maximum"].dump() : " and more");
  }

  ManifestProblems& problems_;
};

}  // namespace

void check_form(const Value& study, ManifestProblems& problems) {
  Checker(problems).check(study_form(), study, "");
}

}  // namespace privgrad::core
