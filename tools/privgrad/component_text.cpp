#include "component_text.hpp"

#include <nlohmann/json.hpp>

#include "table.hpp"

namespace privgrad::tool {
namespace {

using Json = nlohmann::json;
using Align = Table::Align;

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

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const Value::List& list) const {
    Json out = Json::array();
    for (const Value& item : list) out.push_back(std::visit(*this, item.data()));
    return out;
  }
  Json operator()(const Value::Object& object) const {
    Json out = Json::object();
    for (const auto& member : object) out[member.key] = std::visit(*this, member.value.data());
    return out;
  }
  template <class Scalar>
  Json operator()(const Scalar& scalar) const {
    return scalar;
  }
};

Json to_json(const std::optional<Value>& value) {
  return value ? std::visit(ToJson{}, value->data()) : Json(nullptr);
}

/// The range that holds for a number, or for every element of a list of numbers.
const ParamSpec& numbers_of(const ParamSpec& spec) {
  const bool own = spec.min || spec.max || spec.element.empty();
  return own ? spec : numbers_of(spec.element.front());
}

Json range_json(const ParamSpec& spec) {
  const ParamSpec& numbers = numbers_of(spec);
  if (!numbers.min && !numbers.max) return nullptr;
  return {{"min", numbers.min ? Json(*numbers.min) : Json(nullptr)},
          {"max", numbers.max ? Json(*numbers.max) : Json(nullptr)},
          {"min_exclusive", numbers.min_exclusive},
          {"max_exclusive", numbers.max_exclusive}};
}

Json param_json(const ParamSpec& spec) {
  Json json{{"name", spec.name},
            {"type", type_name(spec.type)},
            {"unit", spec.unit},
            {"required", spec.required},
            {"default", to_json(spec.default_value)},
            {"example", to_json(spec.example_value)},
            {"range", range_json(spec)},
            {"choices", spec.choices},
            {"doc", spec.doc}};
  if (spec.type == ParamType::list) json["min_items"] = spec.min_items;
  if (!spec.element.empty()) json["element"] = param_json(spec.element.front());
  if (!spec.fields.empty()) {
    Json fields = Json::array();
    for (const ParamSpec& field : spec.fields) fields.push_back(param_json(field));
    json["fields"] = std::move(fields);
  }
  return json;
}

std::string value_text(const Value& value) { return to_json(value).dump(); }

std::string presence_text(const ParamSpec& spec) {
  if (spec.default_value) {
    const bool text = std::holds_alternative<std::string>(spec.default_value->data());
    return "default " + (text ? std::get<std::string>(spec.default_value->data())
                              : value_text(*spec.default_value));
  }
  return spec.required ? "required" : "optional";
}

void add_param(std::string& out, const ParamSpec& spec, const std::string& prefix) {
  out += "  " + prefix + spec.name + "  (" + type_text(spec) +
         (spec.unit.empty() ? "" : ", in " + spec.unit) + ", " + presence_text(spec);
  if (const std::string range = range_text(spec); !range.empty()) out += ", " + range;
  out += ")\n      " + spec.doc + "\n";
  const std::string inner = prefix + spec.name + (spec.type == ParamType::list ? "[]." : ".");
  const bool list_of_objects = spec.type == ParamType::list && !spec.element.empty();
  for (const ParamSpec& field : list_of_objects ? spec.element.front().fields : spec.fields) {
    add_param(out, field, inner);
  }
}

}  // namespace

std::string type_text(const ParamSpec& spec) {
  if (spec.type == ParamType::list && !spec.element.empty()) {
    return "list of " + type_text(spec.element.front());
  }
  return std::string(type_name(spec.type));
}

std::string range_text(const ParamSpec& spec) {
  std::string text;
  if (const ParamSpec& numbers = numbers_of(spec); numbers.min || numbers.max) {
    text +=
        numbers.min ? (numbers.min_exclusive ? "(" : "[") + format_number(*numbers.min) : "(-inf";
    text += ", ";
    text +=
        numbers.max ? format_number(*numbers.max) + (numbers.max_exclusive ? ")" : "]") : "inf)";
  }
  if (spec.min_items > 0) {
    text += (text.empty() ? "" : ", ") + std::string("at least ") + std::to_string(spec.min_items) +
            " of them";
  }
  const auto& choices =
      spec.choices.empty() && !spec.element.empty() ? spec.element.front().choices : spec.choices;
  for (std::size_t i = 0; i < choices.size(); ++i) text += (i == 0 ? "one of " : ", ") + choices[i];
  return text;
}

std::string describe(const Component& component) {
  const Factory& factory = component.factory;
  std::string text =
      factory.kind + " " + factory.info.name + "\n  " + factory.info.summary + "\n\n";
  Table facts({Align::left, Align::left});
  facts.add({"full name", component.full_name()});
  facts.add({"follows", factory.info.reference.empty() ? "-" : factory.info.reference});
  facts.add({"sees", factory.sees});
  facts.add({"version", component.plugin->version});
  facts.add({"file", component.plugin->file});
  facts.add({"sha256", component.plugin->sha256});
  facts.add({"abi", component.plugin->abi_tag});
  text += facts.text(2) + "\nparameters" + (factory.info.params.empty() ? ": none\n" : "\n");
  for (const ParamSpec& spec : factory.info.params) add_param(text, spec, "");
  return text;
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
          {"sha256", plugin.sha256}};
}

nlohmann::json description_json(const Component& component) {
  Json json = listing_json(component);
  json["sees"] = component.factory.sees;
  json["reference"] = component.factory.info.reference;
  json["parameters"] = Json::array();
  for (const ParamSpec& spec : component.factory.info.params) {
    json["parameters"].push_back(param_json(spec));
  }
  return json;
}

}  // namespace privgrad::tool
