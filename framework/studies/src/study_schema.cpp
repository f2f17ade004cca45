#include "privgrad/studies/study_schema.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "known_metrics.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/studies/study.hpp"
#include "study_form.hpp"

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

/// Chooses between two schemas by the value's type, so that messages concern only one schema.
Json if_type(const char* type, Json fits, Json otherwise) {
  return {{"if", {{"type", type}}}, {"then", std::move(fits)}, {"else", std::move(otherwise)}};
}

/// Dotted keys of a manifest, which begin with one of the manifest's names.
Json key_names(const Json& manifest) {
  std::string names;
  for (const auto& [key, schema] : manifest.at("properties").items())
    names += (names.empty() ? "" : "|") + key;
  return {{"pattern", "^(" + names + ")([.]|$)"}};
}

Json text() { return {{"type", "string"}}; }

Json whole(std::uint64_t least, std::uint64_t most) {
  return {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
}

Json map_of(Json values) {
  return {{"type", "object"}, {"additionalProperties", std::move(values)}};
}

Json by_key(Json values = true) {
  Json map = map_of(std::move(values));
  map["propertyNames"] = reference("manifest_key");
  return map;
}

/// The schema of {KEY: [VALUE, ...]} or {KEY: {NAME: VALUE, ...}}.
Json axes() {
  const Json named{{"type", "object"}, {"minProperties", 1}, {"not", {{"required", {"kind"}}}}};
  return by_key(if_type("object", named, list_of(Json(true))));
}

Json seed_list() {
  return {{"type", "array"},
          {"items", {{"type", "integer"}, {"minimum", 0}}},
          {"minItems", 1},
          {"maxItems", kMaxSeeds},
          {"uniqueItems", true}};
}

/// The schema of {KEY: VALUE or [VALUE, ...]}.
Json condition() {
  Json place = by_key();
  place["minProperties"] = 1;
  return place;
}

Json conditions() {
  return described("Which arms of the grid: all of {KEY: VALUE or [VALUE, ...]} must hold.",
                   list_of(condition(), 0));
}

Json amounts() {
  Json map = map_of({{"type", "number"}, {"exclusiveMinimum", 0}});
  map["minProperties"] = 1;
  return map;
}

Json object_of(Json properties, Json required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

Json seeds() {
  Json rule = object_of(
      {{"until", described("How wide the intervals of differences may be.", amounts())},
       {"at_least", described("Seeds before the first look.", whole(2, kMaxSeeds))},
       {"at_most", described("Seeds at which it stops at the latest.", whole(2, kMaxSeeds))}},
      {"until", "at_most"});
  return if_type("array", seed_list(), if_type("object", std::move(rule), whole(1, kMaxSeeds)));
}

Json search(const Json& metric) {
  return object_of(
      {{"over", described("The grid of each arm's hyper-parameters: {KEY: [VALUE, ...]}.", axes())},
       {"arms", described("More of the grid, for single arms: {ARM: {KEY: [VALUE, ...]}}.",
                          map_of(axes()))},
       {"seeds", described("Seeds that the comparison does not use.", seed_list())},
       {"score", described("What the best candidate is the best in.", metric)},
       {"set", described("Changes of the base only in the search, such as other rows to score on.",
                         by_key())}},
      {"seeds"});
}

/// A manifest in which keys may be missing, because arms may set them.
Json base_schema(const Json& manifest) {
  Json base{{"type", "object"},
            {"properties", manifest.at("properties")},
            {"additionalProperties", false}};
  for (auto& [key, section] : base["properties"].items()) section.erase("required");
  return base;
}

Json properties() {
  Json metric{{"type", "string"}, {"enum", Json::array()}};
  for (const StudyMetric& known : known_metrics()) metric["enum"].push_back(known.name);
  Json name = text(), title = text();
  name["pattern"] = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
  title.update({{"minLength", 1}, {"maxLength", 80}});
  Json metrics = list_of(metric);
  metrics["uniqueItems"] = true;
  Json curves = list_of(text());
  curves.update({{"uniqueItems", true}, {"maxItems", 7}});
  return {
      {"study", described("The version of this format; write 1.", whole(1, 1))},
      {"name", described("Names the default directory studies/NAME; default: the file's name.",
                         std::move(name))},
      {"base",
       described("The manifest that arms vary: a file beside the study, or the manifest itself.",
                 if_type("string", text(), reference("base")))},
      {"set",
       described("Changes of the base, in all arms: {KEY: VALUE}; null removes a key.", by_key())},
      {"levels", described("{KEY: [VALUE, ...], ...}, which vary together: arms have equal "
                           "privacy, and are compared, within each level.",
                           axes())},
      {"axes", described("{KEY: [VALUE, ...]} or {KEY: {NAME: VALUE, ...}}: every combination is "
                         "an arm.",
                         axes())},
      {"zip", described("Groups of axes that vary together: [{KEY: [VALUE, ...], ...}].",
                        list_of(axes(), 0))},
      {"arms",
       described("More arms, beside the grid: {NAME: {KEY: VALUE, ...}}.", map_of(by_key()))},
      {"skip", conditions()},
      {"only", conditions()},
      {"seeds",
       described("How often each arm is run, a list of seeds, or when to stop adding them.",
                 seeds())},
      {"equivalence",
       described("{METRIC: MARGIN}: differences that are smaller do not matter.", amounts())},
      {"metrics", described("What is compared; the best arm is the best in the first.",
                            if_type("string", metric, std::move(metrics)))},
      {"baseline", described("The name of an arm, or its place on the axes; default: the first.",
                             if_type("object", condition(), text()))},
      {"search", described("Each arm's own best hyper-parameters, found before the comparison.",
                           search(metric))},
      {"titles", described("What pages and charts call the keys that vary: {KEY: TEXT}.",
                           by_key(std::move(title)))},
      {"curves", described("Arms that charts over the steps show besides the baseline, where not "
                           "all fit.",
                           std::move(curves))},
      {"equal_privacy", described("Whether all arms of a level have, and must have, one guarantee.",
                                  {{"type", "boolean"}, {"default", true}})},
      {"training_data_is_public",
       described("Declares that nothing in the training data is private.",
                 {{"type", "boolean"}, {"default", false}})}};
}

}  // namespace

const Json& study_form() {
  static const Json form = object_of(properties(), {"study", "base", "seeds"});
  return form;
}

nlohmann::json study_schema(const Catalog& catalog) {
  Json manifest = manifest_schema(catalog);
  Json definitions = std::move(manifest["$defs"]);
  definitions["base"] = base_schema(manifest);
  definitions["manifest_key"] = key_names(manifest);
  Json schema = study_form();
  schema["$schema"] = manifest.at("$schema");
  schema["title"] = "PrivGrad study";
  schema["$defs"] = std::move(definitions);
  return schema;
}

}  // namespace privgrad::core
