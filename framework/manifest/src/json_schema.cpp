#include "privgrad/manifest/json_schema.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "manifest_keys.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

Json object_schema(const std::vector<ParamSpec>& specs) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const ParamSpec& spec : specs) {
    properties[spec.name] = param_schema(spec);
    if (spec.required) required.push_back(spec.name);
  }
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

void add_bounds(const ParamSpec& spec, Json& schema) {
  if (spec.min) schema[spec.min_exclusive ? "exclusiveMinimum" : "minimum"] = *spec.min;
  if (spec.max) schema[spec.max_exclusive ? "exclusiveMaximum" : "maximum"] = *spec.max;
}

std::string description_of(const ParamSpec& spec) {
  std::string text = spec.doc;
  if (spec.type == ParamType::path) {
    text += " Relative paths are looked up beside the manifest, then in PRIVGRAD_DATA_DIR.";
  }
  if (!spec.unit.empty()) text += " Unit: " + spec.unit + ".";
  return text;
}

/// Selects a schema by the form of the value. (With `anyOf`, a validator would report only that no
/// schema fits, without a reason.)
Json choose(Json condition, Json fits, Json otherwise) {
  return {{"if", std::move(condition)}, {"then", std::move(fits)}, {"else", std::move(otherwise)}};
}
Json of_type(const char* type) { return {{"type", type}}; }
Json has_kind(const Json& ids) {
  return {{"required", {"kind"}}, {"properties", {{"kind", {{"enum", ids}}}}}};
}
Json or_auto(Json schema) {
  return choose(of_type("string"), {{"enum", {"auto"}}}, std::move(schema));
}

/// Builds the whole schema; one definition per kind of component.
class Builder {
 public:
  explicit Builder(const Catalog& catalog) : catalog_(catalog) {}

  Json build() {
    Json schema = section(root_section());
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
    schema["title"] = "PrivGrad manifest";
    for (const Section* part : {&schedules_section(), &privacy_section()}) {
      schema["properties"][part->key] = section(*part);
      schema["required"].push_back(part->key);
    }
    for (const Section* part : {&federated_section(), &allow_section()})
      schema["properties"][part->key] = section(*part);
    Json often = section(checkpoint_section());
    often["not"] = {{"required", {"every_steps", "every_seconds"}}};
    schema["properties"][checkpoint_section().key] = {
        {"anyOf", {std::move(often), {{"enum", {"off"}}}}},
        {"description", checkpoint_section().doc}};
    schema["$defs"] = std::move(definitions_);
    return schema;
  }

 private:
  Json section(const Section& section) {
    Json schema = object_schema(section.params);
    schema["description"] = section.doc;
    for (const Slot& slot : section.slots) {
      schema["properties"][slot.key] = slot_schema(slot);
      if (slot.required && slot.default_name.empty()) schema["required"].push_back(slot.key);
    }
    return schema;
  }

  Json slot_schema(const Slot& slot) {
    define(slot);
    const Json reference = {{"$ref", "#/$defs/" + std::string(slot.kind)}};
    Json schema = reference;
    if (slot.is_list) schema = {{"type", "array"}, {"items", reference}};
    if (slot.takes_auto) schema = choose({{"enum", {"auto"}}}, Json(true), schema);
    if (slot.takes_number) schema = choose(of_type("number"), number_schema(slot), schema);
    schema["description"] = slot.doc;
    if (!slot.default_name.empty()) schema["default"] = slot.default_name;
    return schema;
  }

  /// Returns the schema of a bare number, with the bounds that `constant` sets for its value.
  Json number_schema(const Slot& slot) const {
    Json schema = {{"type", "number"}, {"description", "The same value at every step."}};
    for (const Component* component : catalog_.components_of(slot.kind, "constant")) {
      if (component->plugin->name != catalog_.owner_of(slot.kind, "constant")) continue;
      for (const ParamSpec& spec : component->factory.info.params) {
        if (spec.name == "value") add_bounds(spec, schema);
      }
    }
    return schema;
  }

  void define(const Slot& slot) {
    if (definitions_.contains(slot.kind)) return;
    definitions_[slot.kind] = Json::object();  // the members of data are added below
    Json names = Json::array(), kinds = Json::array(), variants = Json::array();
    for (const Component* offered : catalog_.components_of(slot.kind)) {
      const Component& component = *offered;
      const Json ids = ids_of(component);
      kinds.insert(kinds.end(), ids.begin(), ids.end());
      variants.push_back({{"if", has_kind(ids)}, {"then", component_schema(slot, component, ids)}});
      // A name is sufficient if no parameter is required.
      const auto& specs = component.factory.info.params;
      const bool needs_more = std::ranges::any_of(specs, [](const auto& s) { return s.required; });
      if (!needs_more) names.insert(names.end(), ids.begin(), ids.end());
    }
    Json object = of_type("object");
    object.update(has_kind(kinds));
    if (!variants.empty()) object["allOf"] = std::move(variants);
    if (slot.key == aggregator_section().key) {
      // For the default component: only the manifest's own keys.
      Json own = section(aggregator_section());
      own["required"].push_back(aggregator_section().params.front().name);
      object = choose({{"required", {"kind"}}}, std::move(object), std::move(own));
    }
    // Without components, no value is valid.
    definitions_[slot.kind] = kinds.empty()
                                  ? Json(false)
                                  : choose(of_type("string"), {{"enum", names}}, std::move(object));
  }

  /// Returns the names of a component: the full name, and the bare name if it refers to this
  /// plugin's component.
  Json ids_of(const Component& component) const {
    Json ids = Json::array();
    const std::string& name = component.factory.info.name;
    if (catalog_.owner_of(component.factory.kind, name) == component.plugin->name)
      ids.push_back(name);
    ids.push_back(component.full_name());
    return ids;
  }

  Json component_schema(const Slot& slot, const Component& component, const Json& ids) {
    const ComponentInfo& info = component.factory.info;
    Json schema = object_schema(info.params);
    schema["title"] = info.name;
    schema["description"] = info.summary;
    schema["properties"]["kind"] = {{"enum", ids}, {"description", info.summary}};
    schema["required"].push_back("kind");
    for (const Section* beside : {&data_section(), &aggregator_section(), &model_section()}) {
      if (slot.key != beside->key) continue;
      const Json own = section(*beside);
      schema["properties"].update(own["properties"]);
    }
    if (slot.key == model_section().key) {
      add_tensor_names(schema);
      add_balanced_weights(schema);
    }
    if (slot.key == data_section().key) add_private_size(schema);
    return schema;
  }

  /// Adds model.weights.map: parameter declarations cannot express members with arbitrary names.
  static void add_tensor_names(Json& schema) {
    schema["properties"]["weights"]["properties"]["map"] = {
        {"type", "object"},
        {"additionalProperties", choose(of_type("object"), param_schema(tensor_source_spec()),
                                        {{"type", {"string", "null"}}})},
        {"description",
         "The file's names for tensors that have other names there: {NAME IN THE MODEL: NAME IN "
         "THE FILE}; null: the tensor begins as the model says."}};
  }

  /// Lets the model's `class_weights` be the word `balanced` as well.
  static void add_balanced_weights(Json& schema) {
    const Json word{{"enum", {"balanced"}}};
    Json& weights = schema["properties"]["class_weights"];
    if (weights.is_null()) {
      weights = word;
      return;
    }
    const Json description = weights["description"];
    weights = choose(of_type("string"), word, weights);
    weights["description"] = description;
  }

  /// Lets data.size also be an object, for a size that is released.
  static void add_private_size(Json& schema) {
    Json released = param_schema(private_size_spec());
    released.update(choose({{"required", {"share"}}},
                           {{"properties", {{"noise_multiplier", false}}}},
                           {{"required", {"noise_multiplier"}}}));
    Json& size = schema["properties"]["size"];
    const Json description = size["description"];
    size = choose(of_type("object"), std::move(released), size);
    size["description"] = description;
  }

  const Catalog& catalog_;
  Json definitions_ = Json::object();
};

}  // namespace

Json value_to_json(const Value& value) {
  struct Converter {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(bool data) const { return data; }
    Json operator()(std::int64_t data) const { return data; }
    Json operator()(double data) const {
      if (!std::isfinite(data)) throw ConfigError(format_number(data) + " cannot be said in JSON");
      return data;
    }
    Json operator()(const std::string& data) const { return data; }
    Json operator()(const Value::List& data) const {
      Json list = Json::array();
      for (const Value& item : data) list.push_back(value_to_json(item));
      return list;
    }
    Json operator()(const Value::Object& data) const {
      Json object = Json::object();
      for (const Value::Member& member : data) object[member.key] = value_to_json(member.value);
      return object;
    }
  };
  return std::visit(Converter{}, value.data());
}

Value value_from_json(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      if (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
        throw IoError("holds a number beyond 64 bits");
      return json.get<std::int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array: {
      Value::List list;
      for (const Json& one : json) list.push_back(value_from_json(one));
      return list;
    }
    case Json::value_t::object: {
      Value object{Value::Object{}};
      for (const auto& [key, one] : json.items()) object.set(key, value_from_json(one));
      return object;
    }
    default:
      return {};
  }
}

Json param_schema(const ParamSpec& spec) {
  Json schema;
  switch (spec.type) {
    case ParamType::boolean:
      schema = {{"type", "boolean"}};
      break;
    case ParamType::integer:
    case ParamType::real:
      schema = {{"type", spec.type == ParamType::integer ? "integer" : "number"}};
      add_bounds(spec, schema);
      if (spec.takes_auto) schema = or_auto(std::move(schema));
      break;
    case ParamType::text:
      schema = {{"type", "string"}};
      if (!spec.choices.empty()) schema["enum"] = spec.choices;
      break;
    case ParamType::path:
      schema = {{"type", "string"}, {"minLength", 1}};
      break;
    case ParamType::list:
      schema = {{"type", "array"}, {"items", param_schema(spec.element.front())}};
      if (spec.min_items > 0) schema["minItems"] = spec.min_items;
      break;
    case ParamType::object:
      schema = object_schema(spec.fields);
      break;
  }
  const std::string description = description_of(spec);
  if (!description.empty()) schema["description"] = description;
  if (spec.default_value) schema["default"] = value_to_json(*spec.default_value);
  if (spec.example_value) {
    // Json::array, because in braces, JSON would read a list of two texts as an object.
    schema["examples"] = Json::array({value_to_json(*spec.example_value)});
  }
  return schema;
}

Json manifest_schema(const Catalog& catalog) { return Builder(catalog).build(); }

Json shared_by_sites(const Manifest& manifest) {
  Json shared = value_to_json(manifest.resolved);
  shared.erase("data");
  shared.at("privacy").erase("account");
  // The entries of section `data` that concern all sites.
  shared["data.size"] = manifest.dataset_size ? Json(*manifest.dataset_size) : Json(nullptr);
  shared["data.transforms"] = Json::array();
  for (const ComponentUse& use : manifest.transforms) {
    shared["data.transforms"].push_back(
        {{"kind", use.component->full_name()}, {"params", value_to_json(use.params.value())}});
  }
  return shared;
}

}  // namespace privgrad::core
