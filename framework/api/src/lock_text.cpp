#include "privgrad/api/lock_text.hpp"

#include <map>
#include <set>

#include "privgrad/host/lock_file.hpp"

namespace privgrad::api {

std::string lock_text(const std::vector<const core::Manifest*>& manifests) {
  std::vector<PluginIdentity> used;
  std::map<std::string, std::set<std::string>> traits;
  for (const core::Manifest* manifest : manifests) {
    for (const core::UsedPlugin& one : core::plugins_of(*manifest)) used.push_back(*one.plugin);
    for (const core::ComponentUse* use : core::components_of(*manifest)) {
      const std::vector<std::string>& declared = use->component->factory.info.traits;
      traits[use->component->plugin->name].insert(declared.begin(), declared.end());
    }
  }
  return host::lock_file_text(used, traits);
}

}  // namespace privgrad::api
