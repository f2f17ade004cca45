#include "component_json.hpp"

#include <nlohmann/json.hpp>

#include "privgrad/manifest/json_schema.hpp"

namespace privgrad::tool {
namespace {

using Json = nlohmann::json;

std::string_view type_name(ParamType type) {
  switch (type) {
    case ParamType::boolean:
      return "boolean";
    case ParamType::integer:
      return "integer";
    case ParamType::real:
      return "real";
    case ParamType::text:
      return "text";
    case ParamType::path:
      return "path";
    case ParamType::list:
      return "list";
    case ParamType::object:
      return "object";
  }
  return "?";
}

Json optional_json(const std::optional<Value>& value) {
  return value ? core::value_to_json(*value) : Json(nullptr);
}

Json limit_json(const std::optional<double>& limit) { return limit ? Json(*limit) : Json(nullptr); }

/// Of a number, or of every element of a list of numbers.
Json range_json(const ParamSpec& spec) {
  if (!spec.min && !spec.max) return nullptr;
  return {{"min", limit_json(spec.min)},
          {"max", limit_json(spec.max)},
          {"min_exclusive", spec.min_exclusive},
          {"max_exclusive", spec.max_exclusive}};
}

Json param_json(const ParamSpec& spec);

Json params_json(const std::vector<ParamSpec>& specs) {
  Json json = Json::array();
  for (const ParamSpec& spec : specs) json.push_back(param_json(spec));
  return json;
}

Json param_json(const ParamSpec& spec) {
  Json json{{"name", spec.name},
            {"type", type_name(spec.type)},
            {"unit", spec.unit},
            {"required", spec.required},
            {"default", optional_json(spec.default_value)},
            {"example", optional_json(spec.example_value)},
            {"range", range_json(spec)},
            {"choices", spec.choices},
            {"doc", spec.doc}};
  if (spec.type == ParamType::list) json["min_items"] = spec.min_items;
  if (!spec.element.empty()) json["element"] = param_json(spec.element.front());
  if (!spec.fields.empty()) json["fields"] = params_json(spec.fields);
  return json;
}

}  // namespace

nlohmann::json listing_json(const Component& component) {
  const PluginIdentity& plugin = *component.plugin;
  return {{"kind", component.factory.kind},
          {"name", component.factory.info.name},
          {"full_name", component.full_name()},
          {"summary", component.factory.info.summary},
          {"plugin", plugin.name},
          {"version", plugin.version},
          {"path", plugin.file},
          {"abi", plugin.abi_tag},
          {"sha256", plugin.sha256},
          {"tested", plugin.is_tested()}};
}

nlohmann::json description_json(const Component& component) {
  const Factory& factory = component.factory;
  Json json = listing_json(component);
  json["sees"] = factory.sees;
  json["reference"] = factory.info.reference;
  if (!factory.info.certified_by.empty()) json["certified_by"] = factory.info.certified_by;
  json["parameters"] = params_json(factory.info.params);
  return json;
}

}  // namespace privgrad::tool
