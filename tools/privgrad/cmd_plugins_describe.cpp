#include <nlohmann/json.hpp>

#include "command.hpp"
#include "component_json.hpp"
#include "output.hpp"
#include "plugins.hpp"
#include "privgrad/manifest/component_docs.hpp"

namespace privgrad::tool {
namespace {

/// What the user calls a component: KIND/NAME, NAME, KIND/PLUGIN:NAME or PLUGIN:NAME.
struct Wanted {
  std::string kind;  // "": any
  std::string name;
};

Wanted split(const std::string& id) {
  const std::size_t slash = id.find('/');
  if (slash == id.npos) return {"", id};
  return {id.substr(0, slash), id.substr(slash + 1)};
}

bool fits(const Wanted& wanted, const Component& component) {
  if (!wanted.kind.empty() && wanted.kind != component.factory.kind) return false;
  return wanted.name == component.factory.info.name || wanted.name == component.full_name();
}

[[noreturn]] void fail_unknown(const Catalog& catalog, const std::string& id) {
  std::vector<std::string> ids;
  const bool with_kind = id.find('/') != id.npos;
  for (const Component& component : catalog.components()) {
    const std::string kind = with_kind ? component.factory.kind + "/" : "";
    ids.push_back(kind + component.factory.info.name);
    ids.push_back(kind + component.full_name());
  }
  const std::string nearest = nearest_name(id, ids);
  throw ConfigError(
      "no plugin offers '" + id + "'" +
      (nearest.empty() ? "; see privgrad plugins list" : "; did you mean '" + nearest + "'?"));
}

const Component& find(const Catalog& catalog, const std::string& id) {
  const Wanted wanted = split(id);
  std::vector<const Component*> found;
  for (const Component& component : catalog.components()) {
    if (fits(wanted, component)) found.push_back(&component);
  }
  if (found.empty()) fail_unknown(catalog, id);
  if (found.size() == 1) return *found.front();
  std::string all;
  for (const Component* component : found) {
    all += (all.empty() ? "" : ", ") + component->factory.kind + "/" + component->full_name();
  }
  throw ConfigError("'" + id + "' is offered more than once; say which: " + all);
}

int do_plugins_describe(const Arguments& arguments) {
  const host::PluginHost host = load_plugins(arguments);
  const Component& component = find(host.catalog(), arguments.operand(0));
  if (arguments.has("json")) {
    print_json(description_json(component));
  } else {
    print(core::component_text(component));
  }
  return 0;
}

}  // namespace

Command plugins_describe_command() {
  return {
      .usage = {.name = "plugins describe",
                .summary = "Describes one component: what it does, the source it follows, its "
                           "parameters.",
                .operands = {"KIND/NAME"},
                .options = {{.name = "json", .value = "", .doc = "As JSON."}, plugin_dir_option()},
                .details = "NAME alone will do where it is unique; PLUGIN:NAME where two "
                           "plugins offer the same name.",
                .examples = {"privgrad plugins describe optimizer/momentum",
                             "privgrad plugins describe schedule/constant --json"}},
      .run = do_plugins_describe};
}

}  // namespace privgrad::tool
