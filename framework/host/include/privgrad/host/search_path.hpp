// The directories that are searched for plugins, and a function that loads all plugins in them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "privgrad/host/lock_file.hpp"
#include "privgrad/host/plugin_host.hpp"

namespace privgrad::host {

/// A directory in which plugins are searched.
struct SearchDirectory {
  /// The source of the directory's name, which decides the consequence of a missing directory.
  enum class Origin {
    option = 1,   ///< --plugin-dir: an error.
    environment,  ///< PRIVGRAD_PLUGIN_PATH: the catalog lists a refusal.
    user,         ///< The user's plugin directory: nothing happens.
    program,      ///< Beside the program: nothing happens. Its plugins have the first claim to a
                  ///< name.
  };
  std::filesystem::path path;
  Origin origin = Origin::option;
};

/// The search order:
///   1. `plugin_dirs`, as given;
///   2. PRIVGRAD_PLUGIN_PATH, separated by ':', unless the program runs with raised privileges;
///   3. $XDG_DATA_HOME/privgrad/plugins, or ~/.local/share/privgrad/plugins;
///   4. lib/privgrad/plugins beside the program's own directory, in the build tree and installed;
///      for a program in lib/privgrad/, plugins/ beside it.
/// A manifest cannot add to this list, because running someone's manifest must not mean running
/// their code.
/// \param program  the program of place 4, for a library that is installed with it; empty: this
///   process's program.
std::vector<SearchDirectory> search_path(const std::vector<std::filesystem::path>& plugin_dirs,
                                         const std::filesystem::path& program = {});

/// Place 3 of search_path(), into which `privgrad plugins install` installs a plugin for one user.
/// \throws ConfigError if neither XDG_DATA_HOME nor HOME is set.
std::filesystem::path user_plugin_directory();

/// \returns the files "*.privgrad.so" below `directory`, at most four levels deep, sorted. Links to
///   files are followed, links to directories are not.
/// \throws ConfigError if the directory cannot be read, or has more than `most_entries` entries and
///   so cannot be a plugin directory.
std::vector<std::filesystem::path> find_plugin_files(const std::filesystem::path& directory,
                                                     std::size_t most_entries = 20000);

struct SearchRequest {
  std::vector<std::filesystem::path> plugin_dirs = {};  ///< --plugin-dir, in the order given.
  std::optional<LockFile> lock = std::nullopt;          ///< run --locked.
  std::filesystem::path program = {};                   ///< As for search_path().
  RefusedFiles refused = {};
  std::function<void(const PluginIdentity&)> on_loaded = {};  ///< The same as in TrustPolicy.
  /// Directories that are not searched, although PluginHost::load() may load files from them.
  std::vector<std::filesystem::path> also_trusted = {};
};

/// Offers every plugin of the directories, in their order. A refused plugin does not stop the
/// others: catalog().refused() lists it with the reason, and the command warns. If two plugins have
/// the same name, the first is offered and the second refused.
///
/// With a lock, only its plugins are offered, and all of them are loaded.
/// \throws ConfigError if a directory with Origin::option does not exist.
/// \throws PluginError if a plugin of the lock is missing, has changed, or cannot be loaded.
PluginHost plugins_in(const std::vector<SearchDirectory>& directories,
                      const SearchRequest& request = {});

/// plugins_in() the directories of search_path(), as the command does at start-up.
PluginHost find_plugins(const SearchRequest& request);

}  // namespace privgrad::host
