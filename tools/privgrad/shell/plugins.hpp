// Loads plugins for a command, from the usual places and those of --plugin-dir.
#pragma once

#include <optional>

#include "arguments.hpp"
#include "privgrad/host/lock_file.hpp"
#include "privgrad/host/plugin_host.hpp"

namespace privgrad::tool {

/// --plugin-dir, for every subcommand that loads plugins.
Option plugin_dir_option();

/// Loads the plugins that the call may use, and warns about those that were refused.
/// \throws ConfigError, PluginError
host::PluginHost load_plugins(const Arguments& arguments,
                              const std::optional<host::LockFile>& lock = std::nullopt,
                              const host::RefusedFiles& refused = {});

}  // namespace privgrad::tool
