#include "manifest_call.hpp"

#include "privgrad/host/lock_file.hpp"

namespace privgrad::tool {

Option set_option() {
  return {.name = "set",
          .value = "KEY=VALUE",
          .doc =
              "Override one value of the manifest; KEY is dotted (schedules.clip_norm), VALUE is "
              "YAML.",
          .repeatable = true};
}

std::string lock_text(const std::vector<const core::Manifest*>& manifests) {
  std::vector<PluginIdentity> used;
  for (const core::Manifest* manifest : manifests) {
    for (const core::UsedPlugin& one : core::plugins_of(*manifest)) used.push_back(*one.plugin);
  }
  return host::lock_file_text(used);
}

}  // namespace privgrad::tool
