#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "manifest_reader.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::core {

std::vector<UsedPlugin> plugins_of(const Manifest& manifest) {
  std::vector<UsedPlugin> plugins;
  const auto add = [&](const Component* component, const ComponentUse& use) {
    if (component == nullptr) return;
    const auto is_it = [&](const UsedPlugin& other) { return other.plugin == component->plugin; };
    if (std::ranges::none_of(plugins, is_it)) plugins.push_back({component->plugin, &use});
  };
  const auto add_use = [&](const ComponentUse& use) {
    add(use.component, use);
    add(use.certifier, use);
  };
  for (const ComponentUse* use : components_of(manifest)) add_use(*use);
  // The manifest does not name this aggregator, but clients without noise use it for their sums.
  if (manifest.federated) add_use(manifest.federated->client_aggregator);
  return plugins;
}

bool is_allowed_by_hash(const std::vector<std::string>& allowed, const PluginIdentity& plugin) {
  return !plugin.is_tested() && std::ranges::find(allowed, plugin.sha256) != allowed.end();
}

std::vector<std::string> allowed_for_nothing(const Manifest& manifest) {
  std::vector<std::string> unused = manifest.allowed_plugins;
  for (const UsedPlugin& used : plugins_of(manifest)) std::erase(unused, used.plugin->sha256);
  if (manifest.cluster.is_given()) std::erase(unused, manifest.cluster.component->plugin->sha256);
  return unused;
}

std::optional<std::string> why_refused(const Manifest& manifest, const PluginIdentity& plugin) {
  if (manifest.mode != Mode::release) return std::nullopt;
  if (plugin.is_tested() || is_allowed_by_hash(manifest.allowed_plugins, plugin))
    return std::nullopt;
  std::string what = "release mode refuses plugin " + plugin.name + " (" + plugin.file +
                     ", sha256 " + plugin.sha256 + "), which has no record of passed tests";
  if (!plugin.record_problem.empty()) what += ": " + plugin.record_problem;
  return what + "; run: privgrad plugins test " + plugin.file +
         ", or accept it as it is: allow: {plugins: [" + plugin.sha256 + "]}";
}

void ManifestReader::check_tested(const Manifest& manifest) {
  const auto check = [&](const PluginIdentity& plugin, const ComponentUse& use) {
    if (auto why = why_refused(manifest, plugin))
      problems_.add(use.mark, use.where, *std::move(why), Fault::privacy);
  };
  for (const auto& [plugin, use] : plugins_of(manifest)) check(*plugin, *use);
  if (manifest.cluster.is_given()) check(*manifest.cluster.component->plugin, manifest.cluster);
}

}  // namespace privgrad::core
