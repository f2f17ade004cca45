#include "privgrad/catalog.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/names.hpp"

namespace privgrad {
namespace {

/// Hides an id that is longer than any component's name, because it may be a file's content.
std::string shown(std::string_view id) {
  constexpr std::size_t kMostShown = 100;
  if (id.size() > kMostShown) return "of a name of " + std::to_string(id.size()) + " bytes";
  return "'" + std::string(id) + "'";
}

/// Whether a kind or name matches; "" matches any.
bool fits(std::string_view text, std::string_view wanted) {
  return wanted.empty() || text == wanted;
}

}  // namespace

/// The state that copies of a catalog share.
struct Catalog::State {
  /// A plugin, loaded or not.
  struct Plugin {
    std::string name = {};
    Origin origin = Origin::elsewhere;
    std::vector<OfferedComponent> components = {};
    std::string file = {};                    ///< For messages.
    std::function<void(Catalog&)> load = {};  ///< Empty after it has been called.
    std::string failure = {};                 ///< Why it could not be loaded; otherwise "".

    bool has(std::string_view kind, std::string_view component) const {
      return std::ranges::any_of(components, [&](const OfferedComponent& one) {
        return fits(one.kind, kind) && fits(one.name, component);
      });
    }
  };

  /// Returns the plugins of the components that an id refers to. If several components have the
  /// bare name, it means the program's own plugin, or otherwise the plugin that claimed the name.
  std::vector<Plugin*> owners(std::string_view kind, std::string_view plugin,
                              std::string_view name) {
    std::vector<Plugin*> found;
    for (Plugin& one : plugins) {
      if (one.has(kind, name) && (plugin.empty() || plugin == one.name)) found.push_back(&one);
    }
    keep_the_one(found, [](const Plugin& one) { return one.origin == Origin::program; });
    const OfferedComponent component{std::string(kind), std::string(name)};
    keep_the_one(found, [&](const Plugin& one) {
      return std::ranges::any_of(claims, [&](const auto& claim) {
        return claim.first == component && claim.second == one.name;
      });
    });
    return found;
  }

  /// Keeps only the plugin for which `is_it` is true, if there is exactly one.
  template <class IsIt>
  static void keep_the_one(std::vector<Plugin*>& found, const IsIt& is_it) {
    const auto holds = [&](const Plugin* one) { return is_it(*one); };
    if (found.size() > 1 && std::ranges::count_if(found, holds) == 1)
      std::erase_if(found, [&](const Plugin* one) { return !holds(one); });
  }

  std::recursive_mutex mutex;  // a plugin's constructor may request other components
  std::deque<Plugin> plugins;
  std::deque<Component> components;  // a deque, because callers hold references to components
  std::vector<std::pair<OfferedComponent, std::string>> claims;  // the owners of bare names
  std::vector<Refusal> refused;

  /// \throws PluginError, at every call, if the plugin cannot be loaded.
  void load(Plugin& plugin, Catalog& into) {
    try {
      if (plugin.load) std::exchange(plugin.load, nullptr)(into);
    } catch (const PluginError& problem) {
      plugin.failure = problem.what();
      refused.push_back({plugin.file, plugin.failure});
    }
    if (!plugin.failure.empty()) throw PluginError(plugin.file + ": " + plugin.failure);
  }
  /// Loads the plugins for which `wanted` is true; those that cannot be loaded are refused.
  template <class Wanted>
  void load_all(Catalog& into, const Wanted& wanted) {
    for (Plugin& plugin : plugins) {
      if (!plugin.load || !wanted(plugin)) continue;
      try {
        load(plugin, into);
      } catch (const PluginError&) {
        continue;  // already listed as refused
      }
    }
  }

  std::string unknown(std::string_view kind, std::string_view id, std::string_view plugin,
                      std::string_view name, const std::vector<std::string>& names) const {
    std::string message = "no " + std::string(kind) + " " + shown(id) + " is loaded";
    const bool has_plugin = plugin.empty() || std::ranges::any_of(plugins, [&](const Plugin& one) {
                              return one.name == plugin;
                            });
    if (!has_plugin) {
      message += ": its plugin " + shown(plugin) + " is not";
    } else {
      message += names.empty() ? "; none is" : nearest_or_all(name, names);
    }
    for (const Refusal& refusal : refused)
      message += "; refused: " + refusal.file + ": " + refusal.why;
    return message;
  }
};

Catalog::Catalog() : state_(std::make_shared<State>()) {}

void Catalog::add(const std::shared_ptr<const PluginIdentity>& plugin,
                  const std::shared_ptr<const void>& library,
                  const std::vector<Factory>& factories) {
  const std::lock_guard lock(state_->mutex);
  auto known = std::ranges::find_if(state_->plugins,
                                    [&](const auto& one) { return one.name == plugin->name; });
  if (known == state_->plugins.end())
    known = state_->plugins.insert(known, {.name = plugin->name, .file = plugin->file});
  for (const Factory& factory : factories) {
    if (!known->has(factory.kind, factory.info.name))
      known->components.push_back({factory.kind, factory.info.name});
    state_->components.push_back({factory, plugin, library});
  }
}

void Catalog::offer(std::string plugin, std::string file, Origin origin,
                    std::vector<OfferedComponent> components, std::function<void(Catalog&)> load) {
  const std::lock_guard lock(state_->mutex);
  state_->plugins.push_back({.name = std::move(plugin),
                             .origin = origin,
                             .components = std::move(components),
                             .file = std::move(file),
                             .load = std::move(load)});
}

void Catalog::claim(OfferedComponent component, std::string plugin) {
  const std::lock_guard lock(state_->mutex);
  state_->claims.emplace_back(std::move(component), std::move(plugin));
}

void Catalog::add_refused(std::string file, std::string why) {
  const std::lock_guard lock(state_->mutex);
  state_->refused.push_back({std::move(file), std::move(why)});
}

const Component& Catalog::find(std::string_view kind, int interface_version,
                               std::string_view id) const {
  const std::lock_guard lock(state_->mutex);
  const auto colon = id.rfind(':');
  const auto plugin = colon == id.npos ? std::string_view{} : id.substr(0, colon);
  const auto name = colon == id.npos ? id : id.substr(colon + 1);
  const std::vector<State::Plugin*> owners = state_->owners(kind, plugin, name);
  if (owners.empty()) throw ConfigError(state_->unknown(kind, id, plugin, name, names_of(kind)));
  if (owners.size() > 1) {
    std::string message = std::string(kind) + " " + shown(id) + " is ambiguous; write one of";
    for (const State::Plugin* owner : owners)
      message += " " + owner->name + ":" + std::string(name);
    throw ConfigError(message);
  }
  Catalog into(*this);
  state_->load(*owners.front(), into);
  const auto is_it = [&](const Component& one) {
    return one.factory.kind == kind && one.factory.info.name == name &&
           one.plugin->name == owners.front()->name;
  };
  const auto found = std::ranges::find_if(state_->components, is_it);
  if (found->factory.interface_version != interface_version) {
    throw PluginError(found->full_name() + ": speaks version " +
                      std::to_string(found->factory.interface_version) + " of the interface " +
                      std::string(kind) + ", this framework speaks version " +
                      std::to_string(interface_version) +
                      "; rebuild the plugin against this framework");
  }
  return *found;
}

const std::deque<Component>& Catalog::components() const {
  const std::lock_guard lock(state_->mutex);
  Catalog into(*this);
  state_->load_all(into, [](const State::Plugin&) { return true; });
  return state_->components;
}

std::vector<const Component*> Catalog::components_of(std::string_view kind,
                                                     std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  Catalog into(*this);
  state_->load_all(into, [&](const State::Plugin& plugin) { return plugin.has(kind, name); });
  std::vector<const Component*> found;
  for (const State::Plugin& plugin : state_->plugins) {
    for (const Component& component : state_->components) {
      if (component.plugin->name == plugin.name && fits(component.factory.kind, kind) &&
          fits(component.factory.info.name, name)) {
        found.push_back(&component);
      }
    }
  }
  return found;
}

std::vector<const Component*> Catalog::loaded() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<const Component*> all;
  for (const Component& component : state_->components) all.push_back(&component);
  return all;
}

std::vector<std::string> Catalog::ids() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> all;
  for (const State::Plugin& plugin : state_->plugins) {
    for (const OfferedComponent& one : plugin.components) {
      all.push_back(one.kind + "/" + one.name);
      all.push_back(one.kind + "/" + plugin.name + ":" + one.name);
    }
  }
  return all;
}

std::vector<std::string> Catalog::names_of(std::string_view kind) const {
  const std::lock_guard lock(state_->mutex);
  std::set<std::string> names;
  for (const State::Plugin& plugin : state_->plugins) {
    for (const OfferedComponent& one : plugin.components)
      if (one.kind == kind) names.insert(one.name);
  }
  return {names.begin(), names.end()};
}

std::string Catalog::owner_of(std::string_view kind, std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  const std::vector<State::Plugin*> owners = state_->owners(kind, "", name);
  return owners.size() == 1 ? owners.front()->name : "";
}

std::vector<Catalog::Refusal> Catalog::refused() const {
  const std::lock_guard lock(state_->mutex);
  return state_->refused;
}

}  // namespace privgrad
