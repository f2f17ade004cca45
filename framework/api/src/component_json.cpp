#include "privgrad/api/component_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "privgrad/backend.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/json_schema.hpp"
#include "privgrad/names.hpp"
#include "privgrad/params.hpp"

namespace privgrad::api {
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

/// Returns the allowed range of a number, or of each number in a list.
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

/// A component's name as the user writes it: KIND/NAME, NAME, KIND/PLUGIN:NAME or PLUGIN:NAME.
struct WantedComponent {
  std::string kind;  // "": any
  std::string name;
};

WantedComponent split_id(const std::string& id) {
  const std::size_t slash = id.find('/');
  if (slash == id.npos) return {"", id};
  return {id.substr(0, slash), id.substr(slash + 1)};
}

bool fits(const WantedComponent& wanted, const Component& component) {
  if (!wanted.kind.empty() && wanted.kind != component.factory.kind) return false;
  return wanted.name == component.factory.info.name || wanted.name == component.full_name();
}

[[noreturn]] void fail_unknown(const Catalog& catalog, const std::string& id) {
  std::vector<std::string> ids = catalog.ids();
  if (id.find('/') == id.npos) {
    for (std::string& one : ids) one.erase(0, one.find('/') + 1);
  }
  const std::string nearest = did_you_mean(id, ids);
  throw ConfigError("no plugin offers '" + id + "'" +
                    (nearest.empty() ? "; see privgrad plugins list" : nearest));
}

}  // namespace

std::string missing_hardware(const Component& component) {
  const Factory& factory = component.factory;
  if (factory.kind != Backend::kKind || factory.interface_version != Backend::kInterfaceVersion) {
    return {};
  }
  std::vector<Problem> problems;
  const Params params = Params::check(factory.info.params, Value::Object{}, problems);
  if (!problems.empty()) return {};  // the component cannot be made without parameters
  return Catalog::create<Backend>(component, params)->missing_hardware();
}

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
          {"tested", plugin.is_tested()},
          {"missing_hardware", missing_hardware(component)}};
}

nlohmann::json description_json(const Component& component) {
  const Factory& factory = component.factory;
  Json json = listing_json(component);
  json["sees"] = factory.sees;
  json["reference"] = factory.info.reference;
  if (!factory.info.certified_by.empty()) json["certified_by"] = factory.info.certified_by;
  json["traits"] = factory.info.traits;
  json["parameters"] = params_json(factory.info.params);
  return json;
}

std::vector<const Component*> sorted_components(const Catalog& catalog) {
  std::vector<const Component*> components = catalog.components_of("");
  const auto key = [](const Component* c) {
    return std::tie(c->factory.kind, c->factory.info.name, c->plugin->name);
  };
  std::ranges::sort(components,
                    [&](const Component* a, const Component* b) { return key(a) < key(b); });
  return components;
}

nlohmann::json list_json(const Catalog& catalog) {
  nlohmann::json json{{"plugins", nlohmann::json::array()}, {"refused", nlohmann::json::array()}};
  for (const Component* component : sorted_components(catalog)) {
    json["plugins"].push_back(listing_json(*component));
  }
  for (const Catalog::Refusal& refusal : catalog.refused()) {
    json["refused"].push_back({{"path", refusal.file}, {"why", refusal.why}});
  }
  return json;
}

const Component& find_component(const Catalog& catalog, const std::string& id) {
  const WantedComponent wanted = split_id(id);
  const std::string name = wanted.name.substr(wanted.name.rfind(':') + 1);
  std::vector<const Component*> found = catalog.components_of(wanted.kind, name);
  std::erase_if(found, [&](const Component* one) { return !fits(wanted, *one); });
  if (found.empty()) fail_unknown(catalog, id);
  if (found.size() == 1) return *found.front();
  std::string all;
  for (const Component* component : found) {
    all += (all.empty() ? "" : ", ") + component->factory.kind + "/" + component->full_name();
  }
  throw ConfigError("'" + id + "' is offered by several plugins; name one of them: " + all);
}

}  // namespace privgrad::api
