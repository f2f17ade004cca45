#include "manifest_reader.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "manifest_values.hpp"
#include "privgrad/error.hpp"
#include "privgrad/manifest/removed_components.hpp"
#include "privgrad/names.hpp"
#include "privgrad/trust/certified_accountant.hpp"

namespace privgrad::core {
namespace {

/// Returns the problem's text. For an unknown key, suggests the manifest's own key if other
/// programs use that name, which is likelier than a typing error, or else the nearest name.
std::string with_own_name(const Problem& problem, const std::vector<ParamSpec>& specs,
                          const std::vector<std::string_view>& reserved) {
  if (!problem.what.starts_with("is unknown")) return problem.what;
  const std::string hint = unknown_hint(problem.where, "");
  if (!hint.empty()) return "is unknown" + hint;
  // an error of a nested object
  if (problem.where.find('.') != std::string::npos) return problem.what;
  std::vector<std::string> names{"kind"};
  for (const ParamSpec& spec : specs) names.push_back(spec.name);
  for (const std::string_view name : reserved) names.emplace_back(name);
  const std::string nearest = did_you_mean(problem.where, names);
  return nearest.empty() ? problem.what : "is unknown" + nearest;
}

/// If only the manifest's own keys are given (`{arithmetic: float}`), adds the slot's default
/// component.
void add_default_kind(const Slot& slot, const std::vector<std::string_view>& reserved,
                      Value& node) {
  const auto& members = std::get<Value::Object>(node.data());
  const auto is_own = [&](const Value::Member& member) {
    return std::ranges::find(reserved, member.key) != reserved.end();
  };
  if (slot.default_name.empty() || members.empty()) return;
  if (!std::ranges::all_of(members, is_own)) return;
  Value kind{std::string(slot.default_name)};
  kind.mark = node.mark;
  node.set("kind", std::move(kind));
}

std::string article(const Slot& slot) {
  std::string kind(slot.kind);
  std::ranges::replace(kind, '_', ' ');
  const bool vowel = std::string_view("aeiou").find(kind.front()) != std::string_view::npos;
  return (vowel ? "an " : "a ") + kind;
}

}  // namespace

Value ManifestReader::read_slot(const Slot& slot, std::string_view section, const Value& parent,
                                ComponentUse& use, const std::vector<std::string_view>& reserved) {
  const std::string where = dotted(section, slot.key);
  const Value* given = parent.find(slot.key);
  if (given != nullptr) return read_component(slot, where, *given, use, reserved);
  if (!slot.default_name.empty()) {
    // Problems with the default are reported at the section that lacks the component.
    Value left_out{std::string(slot.default_name)};
    if (!section.empty()) left_out.mark = parent.mark;
    return read_component(slot, where, left_out, use, reserved);
  }
  problems_.add(parent.mark, where, "is missing; " + std::string(slot.doc));
  return {};
}

Value ManifestReader::read_list(const Slot& slot, std::string_view section, const Value& parent,
                                std::vector<ComponentUse>& uses) {
  const std::string where = dotted(section, slot.key);
  Value::List resolved;
  const Value* given = parent.find(slot.key);
  if (given == nullptr) return resolved;
  const auto* items = std::get_if<Value::List>(&given->data());
  if (items == nullptr) {
    problems_.add(given->mark, where,
                  "is " + std::string(given->type_name()) + ", expected a list of components");
    return resolved;
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    resolved.push_back(read_component(slot, where + "." + std::to_string(i), (*items)[i],
                                      uses.emplace_back(), {}));
  }
  return marked(std::move(resolved), given);
}

Value ManifestReader::read_component(const Slot& slot, const std::string& where, const Value& given,
                                     ComponentUse& use,
                                     const std::vector<std::string_view>& reserved) {
  use.where = where;
  use.position = problems_.position(given.mark);
  use.mark = given.mark;
  std::optional<Value> node = as_object(slot, where, given);
  if (!node) return {};
  add_default_kind(slot, reserved, *node);
  use.component = find(slot, where, *node);
  if (use.component == nullptr) return {};
  use.catalog = &catalog_;
  try {
    use.certifier = certifier_of(*use.component, catalog_);
  } catch (const ConfigError& problem) {
    problems_.add(given.mark, where, problem.what());
  }
  use.params = check_params(*use.component, where, *node, reserved);
  Value resolved = empty_object(given.mark);
  resolved.set("kind", marked(use.component->full_name(), node->find("kind")));
  for (const Value::Member& member : std::get<Value::Object>(use.params.value().data())) {
    resolved.set(member.key, member.value);
  }
  return resolved;
}

std::optional<Value> ManifestReader::as_object(const Slot& slot, const std::string& where,
                                               const Value& given) {
  if (std::holds_alternative<Value::Object>(given.data())) return given;
  Value node = empty_object(given.mark);
  if (std::holds_alternative<std::string>(given.data())) {
    node.set("kind", given);
    return node;
  }
  const bool is_number = std::holds_alternative<std::int64_t>(given.data()) ||
                         std::holds_alternative<double>(given.data());
  if (slot.takes_number && is_number) {
    node.set("kind", marked("constant", &given));
    node.set("value", given);
    return node;
  }
  problems_.add(given.mark, where,
                "is " + std::string(given.type_name()) + ", expected " +
                    (slot.takes_number ? "a number, " : "") + "the name of " + article(slot) +
                    " or {kind: NAME, ...}");
  return std::nullopt;
}

const Component* ManifestReader::find(const Slot& slot, const std::string& where,
                                      const Value& node) {
  const Value* kind = node.find("kind");
  if (kind == nullptr) {
    problems_.add(node.mark, where + ".kind",
                  "is missing; it is the name of " + article(slot) + known_names(slot));
    return nullptr;
  }
  const auto* name = std::get_if<std::string>(&kind->data());
  if (name == nullptr) {
    problems_.add(kind->mark, where + ".kind",
                  "is " + std::string(kind->type_name()) + ", expected the name of " +
                      article(slot) + known_names(slot));
    return nullptr;
  }
  try {
    return &catalog_.find(slot.kind, slot.interface_version, *name);
  } catch (const ConfigError& problem) {
    const RemovedComponent* removed = removed_component(slot.kind, *name);
    problems_.add(kind->mark, where, removed == nullptr ? problem.what() : to_text(*removed));
  } catch (const PluginError& problem) {
    throw PluginError(problems_.position(kind->mark) + ": error: " + where + ": " + problem.what());
  }
  return nullptr;
}

Params ManifestReader::check_params(const Component& component, const std::string& where,
                                    const Value& node,
                                    const std::vector<std::string_view>& reserved) {
  const std::vector<ParamSpec>& specs = component.factory.info.params;
  for (const ParamSpec& spec : specs) {
    if (spec.name == "kind" || std::ranges::find(reserved, spec.name) != reserved.end()) {
      throw PluginError(component.full_name() + ": declares the parameter '" + spec.name +
                        "', a name that manifests keep for themselves here");
    }
  }
  std::vector<std::string_view> ignored = reserved;
  ignored.push_back("kind");
  std::vector<Problem> found;
  Value completed = Params::check(specs, node, found, ignored).value();
  for (const Problem& problem : found) {
    problems_.add(problem.mark, dotted(where, problem.where),
                  with_own_name(problem, specs, reserved));
  }
  resolve_paths(specs, completed, where, folders_, problems_);
  std::vector<Problem> already_reported;
  return Params::check(specs, completed, already_reported);
}

std::string ManifestReader::known_names(const Slot& slot) const {
  std::string text;
  for (const std::string& name : catalog_.names_of(slot.kind))
    text += (text.empty() ? ": " : ", ") + name;
  return text;
}

}  // namespace privgrad::core
