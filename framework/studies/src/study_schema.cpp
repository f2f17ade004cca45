#include "privgrad/studies/study_schema.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "known_metrics.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/studies/study.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

Json described(const char* text, Json schema) {
  schema["description"] = text;
  return schema;
}

Json reference(const char* name) { return {{"$ref", std::string("#/$defs/") + name}}; }

Json list_of(Json items, std::size_t least = 1) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", least}};
}

/// The schema depends on the value's type, so that a message is about one of the two alone.
Json if_type(const char* type, Json fits, Json otherwise) {
  return {{"if", {{"type", type}}}, {"then", std::move(fits)}, {"else", std::move(otherwise)}};
}

/// Dotted keys of a manifest: the first name is one of the manifest's own.
Json key_names(const Json& manifest) {
  std::string names;
  for (const auto& [key, schema] : manifest.at("properties").items())
    names += (names.empty() ? "" : "|") + key;
  return {{"pattern", "^(" + names + ")([.]|$)"}};
}

Json by_key(Json values = true) {
  return {{"type", "object"},
          {"propertyNames", reference("manifest_key")},
          {"additionalProperties", std::move(values)}};
}

/// A manifest of which the arms may set what is missing.
Json base_schema(const Json& manifest) {
  Json base{{"type", "object"},
            {"properties", manifest.at("properties")},
            {"additionalProperties", false}};
  for (auto& [key, section] : base["properties"].items()) section.erase("required");
  return base;
}

Json condition_schema() {
  return described("Which arms of the grid: all of {KEY: VALUE or [VALUE, ...]} must hold.",
                   list_of(by_key(), 0));
}

/// {METRIC: NUMBER}.
Json amounts() {
  return {{"type", "object"},
          {"minProperties", 1},
          {"additionalProperties", {{"type", "number"}, {"exclusiveMinimum", 0}}}};
}

Json seed_rule_schema() {
  const Json count{{"type", "integer"}, {"minimum", 2}, {"maximum", kMaxSeeds}};
  return {{"properties",
           {{"until", described("How wide the intervals of differences may be.", amounts())},
            {"at_least", count},
            {"at_most", count}}},
          {"required", {"until", "at_most"}},
          {"additionalProperties", false}};
}

Json search_schema(const Json& metric, const Json& values) {
  Json schema{
      {"type", "object"},
      {"properties",
       {{"over", described("The grid of each arm's hyper-parameters: {KEY: [VALUE, ...]}.",
                           by_key(values))},
        {"arms", described("More of the grid, for single arms: {ARM: {KEY: [VALUE, ...]}}.",
                           {{"type", "object"}, {"additionalProperties", by_key(values)}})},
        {"seeds", described("Seeds that the comparison does not use.",
                            {{"type", "array"},
                             {"items", {{"type", "integer"}, {"minimum", 0}}},
                             {"minItems", 1},
                             {"maxItems", kMaxSeeds},
                             {"uniqueItems", true}})},
        {"score", metric},
        {"set",
         described("Changes of the base in the search alone, such as other rows to score on.",
                   by_key())}}},
      {"required", {"seeds"}},
      {"additionalProperties", false}};
  return described("Each arm's own best hyper-parameters, found before the comparison.",
                   std::move(schema));
}

Json properties(const Json& metric) {
  const Json values = if_type("object", Json{{"minProperties", 1}}, list_of(Json(true)));
  return {
      {"study", described("The version of this format.", {{"enum", {1}}})},
      {"name", described("Names the default directory studies/NAME; default: the file's name.",
                         {{"type", "string"}, {"pattern", "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}})},
      {"base", described("The manifest that arms vary: a file beside the study, or the manifest "
                         "itself.",
                         if_type("string", Json{{"minLength", 1}}, reference("base")))},
      {"set",
       described("Changes of the base, in all arms: {KEY: VALUE}; null removes a key.", by_key())},
      {"levels",
       described("{KEY: [VALUE, ...], ...}, which vary together: arms have equal privacy, "
                 "and are compared, within each level.",
                 by_key(values))},
      {"axes", described("{KEY: [VALUE, ...]} or {KEY: {NAME: VALUE, ...}}: every combination is "
                         "an arm.",
                         by_key(values))},
      {"zip", described("Groups of axes that vary together: [{KEY: [VALUE, ...], ...}].",
                        list_of(by_key(values), 0))},
      {"arms", described("More arms, beside the grid: {NAME: {KEY: VALUE, ...}}.",
                         {{"type", "object"}, {"additionalProperties", by_key()}})},
      {"skip", condition_schema()},
      {"only", condition_schema()},
      {"seeds",
       described("How often each arm is run, a list of seeds, or when to stop adding them.",
                 if_type("array",
                         {{"items", {{"type", "integer"}, {"minimum", 0}}},
                          {"minItems", 1},
                          {"maxItems", kMaxSeeds},
                          {"uniqueItems", true}},
                         if_type("object", seed_rule_schema(),
                                 {{"type", "integer"}, {"minimum", 1}, {"maximum", kMaxSeeds}})))},
      {"equivalence",
       described("{METRIC: MARGIN}: differences that are smaller do not matter.", amounts())},
      {"metrics", described("What is compared; the best arm is the best in the first.",
                            if_type("string", metric, list_of(metric)))},
      {"baseline", described("The name of an arm, or its place on the axes; default: the first.",
                             if_type("object", by_key(), {{"type", "string"}}))},
      {"search", search_schema(metric, values)},
      {"titles", described("What pages and charts call the keys that vary: {KEY: TEXT}.",
                           by_key({{"type", "string"}, {"minLength", 1}, {"maxLength", 80}}))},
      {"equal_privacy", described("Whether all arms of a level have, and must have, one guarantee.",
                                  {{"type", "boolean"}, {"default", true}})},
      {"training_data_is_public",
       described("Declares that nothing in the training data is private.",
                 {{"type", "boolean"}, {"default", false}})}};
}

}  // namespace

nlohmann::json study_schema(const Catalog& catalog) {
  Json manifest = manifest_schema(catalog);
  Json definitions = std::move(manifest["$defs"]);
  definitions["base"] = base_schema(manifest);
  definitions["manifest_key"] = key_names(manifest);
  Json metric{{"enum", Json::array()}};
  for (const StudyMetric& known : known_metrics()) metric["enum"].push_back(known.name);
  return {{"$schema", manifest.at("$schema")},
          {"title", "PrivGrad study"},
          {"type", "object"},
          {"properties", properties(metric)},
          {"required", {"study", "base", "seeds"}},
          {"additionalProperties", false},
          {"$defs", std::move(definitions)}};
}

}  // namespace privgrad::core
