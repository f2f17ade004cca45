// Loads plugins for a command, from the usual places and those of --plugin-dir.
#pragma once

#include <optional>

#include "arguments.hpp"
#include "privgrad/host/lock_file.hpp"
#include "privgrad/host/plugin_host.hpp"

namespace privgrad::tool {

/// --plugin-dir, for every subcommand that loads plugins.
Option plugin_dir_option();

/// Finds the plugins that the call may use, which are loaded as they are asked for, and warns about
/// those that are refused by what their files say.
/// \param lock  its plugins are loaded at once, and no others are.
/// \throws ConfigError, PluginError
host::PluginHost load_plugins(const Arguments& arguments,
                              const std::optional<host::LockFile>& lock = std::nullopt);

/// Loads all of them, and warns about those that cannot be loaded, too.
/// \throws ConfigError
host::PluginHost load_every_plugin(const Arguments& arguments, const host::RefusedFiles& refused);

}  // namespace privgrad::tool
