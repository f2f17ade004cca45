// Loads plugins for a command, from the usual places and from the folders of --plugin-dir.
#pragma once

#include <optional>

#include "arguments.hpp"
#include "privgrad/host/lock_file.hpp"
#include "privgrad/host/plugin_host.hpp"

namespace privgrad::tool {

/// Returns --plugin-dir, for every subcommand that loads plugins.
Option plugin_dir_option();

/// Returns --policy, for subcommands that plan runs on data. Each file is added to PRIVGRAD_POLICY
/// when plugins are loaded, so that programs that this program starts obey the policies, too.
Option policy_option();

/// Finds the plugins that the call may use, and warns about refused files. A plugin is loaded when
/// it is needed.
/// \param lock  if given, its plugins are loaded at once, and no other plugin is loaded.
/// \throws UsageError for a wrong --policy; errors of host::find_plugins().
host::PluginHost load_plugins(const Arguments& arguments,
                              const std::optional<host::LockFile>& lock = std::nullopt);

/// Loads all plugins, and also warns about plugins that cannot be loaded.
/// \throws UsageError for a wrong --policy; errors of host::find_plugins().
host::PluginHost load_every_plugin(const Arguments& arguments, const host::RefusedFiles& refused);

/// Warns about plugins that could not be loaded since load_plugins() returned. A command that
/// requests all components of a kind would otherwise ignore them silently. Call it when a command
/// succeeds.
void warn_of_refused();

}  // namespace privgrad::tool
