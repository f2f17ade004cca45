// Loads plugins in a child process, for a command that is to end well whatever a plugin does then.
#pragma once

#include <functional>

#include "privgrad/host/plugin_host.hpp"

namespace privgrad::tool {

/// Calls `action`, which loads plugins and prints what the command prints, in a child process. Where
/// the child ends while a plugin is loaded, that plugin's file is refused and the call made again, so
/// that a plugin that crashes in its constructors, or a damaged file that the dynamic linker does not
/// survive, is one line of the catalog's refusals.
/// \param action  is given the files to refuse; prints nothing before all plugins are loaded.
/// \returns what it returns.
int load_in_child(const std::function<int(const host::RefusedFiles&)>& action);

}  // namespace privgrad::tool
