// Loads plugins in a child process, for a command that must succeed whatever a plugin does while it
// is loaded.
#pragma once

#include <functional>

#include "privgrad/host/plugin_host.hpp"

namespace privgrad::tool {

/// Calls `action`, which loads plugins and prints the command's output, in a child process. If the
/// child ends while a plugin is being loaded, that plugin's file is refused, and `action` is called
/// again. A plugin that crashes in its constructors, or a damaged file that crashes the dynamic
/// linker, thus becomes one line among the catalog's refusals.
/// \param action  receives the files to refuse; it prints nothing before all plugins are loaded.
/// \returns the result of `action`.
int load_in_child(const std::function<int(const host::RefusedFiles&)>& action);

}  // namespace privgrad::tool
