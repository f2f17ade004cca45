#include "privgrad/calls/lock_text.hpp"

#include "privgrad/host/lock_file.hpp"

namespace privgrad::calls {

std::string lock_text(const std::vector<const core::Manifest*>& manifests) {
  std::vector<PluginIdentity> used;
  for (const core::Manifest* manifest : manifests) {
    for (const core::ComponentUse* use : core::components_of(*manifest)) {
      used.push_back(*use->component->plugin);
      if (use->certifier != nullptr) used.push_back(*use->certifier->plugin);
    }
  }
  return host::lock_file_text(used);
}

}  // namespace privgrad::calls
