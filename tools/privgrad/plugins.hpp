#pragma once

#include <optional>

#include "arguments.hpp"
#include "privgrad/host/lock_file.hpp"
#include "privgrad/host/plugin_host.hpp"

namespace privgrad::tool {

/// --plugin-dir, for every subcommand that loads plugins.
Option plugin_dir_option();

/// To be called before plugins are loaded: keeps OpenBLAS, which some bring in, to one thread.
/// Threads are the executor's business: a product that OpenBLAS splits differs in its last bits
/// from one that it does not, and starting its threads takes longer than loading all plugins.
void limit_blas_threads();

/// To be called before plugins are loaded: where PRIVGRAD_INSTRUCTIONS names a level, OpenBLAS uses
/// its kernels of that level, too. Its products differ from level to level in their last bits.
void choose_blas_kernels();

/// Loads the plugins that the call may use, and warns about those that were refused.
/// \throws ConfigError, PluginError
host::PluginHost load_plugins(const Arguments& arguments,
                              const std::optional<host::LockFile>& lock = std::nullopt);

}  // namespace privgrad::tool
