#include "privgrad/calls/lock_text.hpp"

#include "privgrad/host/lock_file.hpp"

namespace privgrad::calls {

std::string lock_text(const std::vector<const core::Manifest*>& manifests) {
  std::vector<PluginIdentity> used;
  for (const core::Manifest* manifest : manifests) {
    for (const core::UsedPlugin& one : core::plugins_of(*manifest)) used.push_back(*one.plugin);
  }
  return host::lock_file_text(used);
}

}  // namespace privgrad::calls
