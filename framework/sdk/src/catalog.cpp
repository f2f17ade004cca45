#include "privgrad/catalog.hpp"

#include <algorithm>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad {
namespace {

/// A text that is longer than any component's name may be a file's content, and is not shown.
std::string shown(std::string_view id) {
  constexpr std::size_t kMostShown = 100;
  if (id.size() > kMostShown) return "of a name of " + std::to_string(id.size()) + " bytes";
  return "'" + std::string(id) + "'";
}

}  // namespace

void Catalog::add(const std::shared_ptr<const PluginIdentity>& plugin,
                  const std::shared_ptr<const void>& library,
                  const std::vector<Factory>& factories) {
  for (const Factory& factory : factories) components_.push_back({factory, plugin, library});
}

void Catalog::add_refused(std::string file, std::string why) {
  refused_.push_back({std::move(file), std::move(why)});
}

const Component& Catalog::find(std::string_view kind, int interface_version,
                               std::string_view id) const {
  const auto colon = id.rfind(':');
  const auto plugin = colon == id.npos ? std::string_view{} : id.substr(0, colon);
  const auto name = colon == id.npos ? id : id.substr(colon + 1);
  std::vector<const Component*> matches;
  std::vector<std::string> names;
  for (const Component& component : components_) {
    if (component.factory.kind != kind) continue;
    names.push_back(component.factory.info.name);
    if (component.factory.info.name == name &&
        (plugin.empty() || plugin == component.plugin->name)) {
      matches.push_back(&component);
    }
  }
  if (matches.empty()) {
    std::string message = "no " + std::string(kind) + " " + shown(id) + " is loaded";
    const std::string nearest = nearest_name(name, names);
    const bool has_plugin = plugin.empty() || std::any_of(components_.begin(), components_.end(),
                                                          [&](const Component& component) {
                                                            return component.plugin->name == plugin;
                                                          });
    if (!has_plugin) {
      message += ": its plugin " + shown(plugin) + " is not";
    } else if (!nearest.empty()) {
      message += "; did you mean '" + nearest + "'?";
    } else {
      std::sort(names.begin(), names.end());
      names.erase(std::unique(names.begin(), names.end()), names.end());
      std::string list;
      for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
      message += names.empty() ? "; none is" : "; there are " + list;
    }
    for (const Refusal& refusal : refused_)
      message += "; refused: " + refusal.file + ": " + refusal.why;
    throw ConfigError(message);
  }
  if (matches.size() > 1) {
    std::string message = std::string(kind) + " " + shown(id) + " is ambiguous; write one of";
    for (const Component* match : matches) message += " " + match->full_name();
    throw ConfigError(message);
  }
  if (matches.front()->factory.interface_version != interface_version) {
    throw PluginError(matches.front()->full_name() + ": speaks version " +
                      std::to_string(matches.front()->factory.interface_version) +
                      " of the interface " + std::string(kind) +
                      ", this framework speaks version " + std::to_string(interface_version) +
                      "; rebuild the plugin against this framework");
  }
  return *matches.front();
}

}  // namespace privgrad
