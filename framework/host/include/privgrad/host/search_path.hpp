// Determines the directories that are searched for plugins, and offers the plugins in them.
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
  /// The origin of the directory's name, and what follows if the directory is missing.
  enum class Origin {
    option = 1,   ///< --plugin-dir: an error.
    environment,  ///< PRIVGRAD_PLUGIN_PATH: a refusal in the catalog.
    user,         ///< The user's plugin directory: nothing.
    program,      ///< Beside the program: nothing. Its plugins have the first claim to a name.
  };
  std::filesystem::path path;
  Origin origin = Origin::option;
};

/// Returns the search order:
///   1. `plugin_dirs`, as given;
///   2. PRIVGRAD_PLUGIN_PATH, separated by ':', unless the program runs with raised privileges;
///   3. $XDG_DATA_HOME/privgrad/plugins, or ~/.local/share/privgrad/plugins;
///   4. lib/privgrad/plugins beside the program's own directory, in the build tree and when
///      installed; for a program in lib/privgrad/, plugins/ beside the program.
/// A manifest cannot add to this list, because running a manifest must not mean running code of the
/// manifest's author.
/// \param program  the program for place 4; if empty, the program of this process. A library
///   passes the program with which it is installed.
std::vector<SearchDirectory> search_path(const std::vector<std::filesystem::path>& plugin_dirs,
                                         const std::filesystem::path& program = {});

/// Returns place 3 of search_path(), where `privgrad plugins install` puts a user's plugins.
/// \throws ConfigError if neither XDG_DATA_HOME nor HOME is set.
std::filesystem::path user_plugin_directory();

/// \returns the files "*.privgrad.so" below `directory`, at most four levels deep, sorted. Links to
///   files are followed, links to directories are not.
/// \throws ConfigError if the directory cannot be read, or has more than `most_entries` entries,
///   which a plugin directory never has.
std::vector<std::filesystem::path> find_plugin_files(const std::filesystem::path& directory,
                                                     std::size_t most_entries = 20000);

struct SearchRequest {
  std::vector<std::filesystem::path> plugin_dirs = {};  ///< --plugin-dir, in the order given.
  std::optional<LockFile> lock = std::nullopt;          ///< run --locked.
  std::filesystem::path program = {};                   ///< The same as for search_path().
  RefusedFiles refused = {};
  std::function<void(const PluginIdentity&)> on_loaded = {};  ///< The same as in TrustPolicy.
  /// Directories that are not searched, although PluginHost::load() may load files from them.
  std::vector<std::filesystem::path> also_trusted = {};
};

/// Offers every plugin in the directories, in the directories' order. Refused plugins are listed
/// in catalog().refused() with their reasons, and the command warns. If two plugins have the same
/// name, the first is offered and the second refused.
///
/// With a lock, only its plugins are offered, and all of them are loaded.
/// \throws ConfigError if a directory with Origin::option does not exist; otherwise like
///   find_plugin_files().
/// \throws PluginError if a plugin of the lock is missing, was changed, or cannot be loaded.
PluginHost plugins_in(const std::vector<SearchDirectory>& directories,
                      const SearchRequest& request = {});

/// Calls plugins_in() for the directories of search_path(), as the command-line program does.
PluginHost find_plugins(const SearchRequest& request);

}  // namespace privgrad::host
