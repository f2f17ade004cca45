// Components of earlier versions, and their replacements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

struct RemovedComponent {
  std::string_view kind, plugin, name;
  std::string_view key;        ///< The key under which manifests name it.
  std::string_view successor;  ///< The component that replaces it.
  std::string_view why;        ///< The reason for the replacement, for a message.
};

/// \param id  "name" or "plugin:name".
/// \returns null for an unknown component.
const RemovedComponent* removed_component(std::string_view kind, std::string_view id);

/// Returns the removed components that the manifest of a run names.
/// \param text  a manifest as runs write it, with full names; if it is not YAML, the result is
///   empty.
std::vector<const RemovedComponent*> removed_components_of(std::string_view text);

/// Returns a sentence, without a full stop, that names the removed component and its replacement.
std::string to_text(const RemovedComponent& removed);

}  // namespace privgrad::core
