#include "privgrad/host/search_path.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <system_error>

#include "data_home.hpp"
#include "privgrad/digest/trusted_path.hpp"
#include "privgrad/error.hpp"
#include "privgrad/host/claimed_names.hpp"
#include "text.hpp"

namespace privgrad::host {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 4;

void add_environment(std::vector<SearchDirectory>& to) {
  std::string_view rest = environment("PRIVGRAD_PLUGIN_PATH");
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    // Ignores empty elements, although in PATH they mean the working directory.
    if (end > 0) to.push_back({rest.substr(0, end), SearchDirectory::Origin::environment});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void add_beside_program(std::vector<SearchDirectory>& to, fs::path program) {
  std::error_code unknown;
  if (program.empty()) program = fs::read_symlink("/proc/self/exe", unknown);
  if (unknown) return;
  fs::path prefix = program.parent_path().parent_path();
  // Programs that the command starts are themselves in lib/privgrad/.
  if (program.parent_path().filename() == "privgrad") prefix = prefix.parent_path();
  // "lib" is for the build tree. PRIVGRAD_INSTALL_LIBDIR is for installations: on Debian it may be
  // lib/x86_64-linux-gnu, elsewhere lib64 or an absolute path.
  for (const char* libdir : {"lib", PRIVGRAD_INSTALL_LIBDIR}) {
    const fs::path path = prefix / libdir / "privgrad/plugins";
    if (to.empty() || to.back().path != path) {
      to.push_back({path, SearchDirectory::Origin::program});
    }
  }
}

struct Search {
  PluginHost& host;
  const std::optional<std::multimap<std::string, std::string>>& pins;
  std::set<fs::path> seen = {};  // resolved paths of the files seen
  std::size_t left_out = 0;
};

void load_directory(Search& search, const fs::path& directory) {
  for (const fs::path& file : find_plugin_files(directory)) {
    std::error_code broken;
    const fs::path resolved = fs::canonical(file, broken);
    // A file that is found twice (by nested directories or links) counts as one plugin.
    if (!broken && !search.seen.insert(resolved).second) continue;
    if (search.pins && !search.pins->contains(file.filename().string())) {
      ++search.left_out;
      continue;
    }
    search.host.offer(file);
  }
}

/// If the directory is missing, does what its origin requires.
/// \returns whether the directory exists.
bool exists_or_consequence(PluginHost& host, const SearchDirectory& directory) {
  std::error_code failure;
  if (fs::is_directory(directory.path, failure)) return true;
  const std::string why = fs::exists(directory.path, failure) ? "not a directory"
                          : failure && failure != std::errc::no_such_file_or_directory
                              ? failure.message()
                              : "no such directory";
  if (directory.origin == SearchDirectory::Origin::option) {
    throw ConfigError(one_line("--plugin-dir " + directory.path.string() + ": " + why));
  }
  if (directory.origin == SearchDirectory::Origin::environment) {
    host.refuse(directory.path, why + ", but PRIVGRAD_PLUGIN_PATH names it");
  }
  return false;
}

/// Checks that every plugin of the lock was found unchanged; otherwise throws an error that gives
/// the reason.
void check_complete(const PluginHost& host, const LockFile& lock) {
  for (const LockedPlugin& locked : lock.plugins) {
    const auto is_it = [&](const auto& plugin) { return plugin->sha256 == locked.sha256; };
    const auto& plugins = host.plugins();
    const auto found = std::ranges::find_if(plugins, is_it);
    const std::string who =
        lock.path.string() + ": plugin " + locked.name + " " + locked.version + ": ";
    if (found != plugins.end()) {
      if ((*found)->name == locked.name && (*found)->version == locked.version) continue;
      throw PluginError(one_line(who + (*found)->file + " has the locked sha256, but is plugin " +
                                 (*found)->name + " " + (*found)->version +
                                 "; the lock file was edited"));
    }
    if (locked.abi != PRIVGRAD_ABI_TAG) {
      throw PluginError(one_line(who + "locked for " + locked.abi + "; this framework is " +
                                 PRIVGRAD_ABI_TAG +
                                 "; use the framework of the lock file, or run without --locked"));
    }
    std::string why;
    for (const Catalog::Refusal& refusal : host.catalog().refused()) {
      if (fs::path(refusal.file).filename() == locked.file) {
        why += (why.empty() ? "" : "; ") + refusal.file + ": " + refusal.why;
      }
    }
    if (why.empty()) {
      why =
          "no file " + locked.file + " is on the search path; name its directory with --plugin-dir";
    }
    throw PluginError(one_line(who + why));
  }
}

}  // namespace

std::vector<SearchDirectory> search_path(const std::vector<fs::path>& plugin_dirs,
                                         const fs::path& program) {
  std::vector<SearchDirectory> directories;
  directories.reserve(plugin_dirs.size());
  for (const fs::path& given : plugin_dirs) {
    directories.push_back({given, SearchDirectory::Origin::option});
  }
  add_environment(directories);
  if (!data_home().empty()) {
    directories.push_back({user_plugin_directory(), SearchDirectory::Origin::user});
  }
  add_beside_program(directories, program);
  return directories;
}

fs::path user_plugin_directory() {
  const fs::path home = data_home();
  if (home.empty())
    throw ConfigError("there is no folder for user data (neither XDG_DATA_HOME nor HOME is given)");
  return home / "privgrad/plugins";
}

std::vector<fs::path> find_plugin_files(const fs::path& directory, std::size_t most_entries) try {
  std::vector<fs::path> files;
  std::size_t entries = 0;
  // Skips directories without read permission, because nothing in them could be loaded.
  fs::recursive_directory_iterator walk(directory, fs::directory_options::skip_permission_denied);
  for (; walk != fs::recursive_directory_iterator(); ++walk) {
    if (++entries > most_entries) {
      throw ConfigError(one_line(directory.string() + ": holds more than " +
                                 std::to_string(most_entries) +
                                 " files; name the directory that contains the plugins"));
    }
    if (walk.depth() + 1 >= kDeepest) walk.disable_recursion_pending();
    const fs::path& file = walk->path();
    std::error_code unknown;  // ignores circular links; loading the file reports them
    if (file.filename().string().ends_with(kPluginSuffix) && !walk->is_directory(unknown)) {
      files.push_back(file);
    }
  }
  std::ranges::sort(files);
  return files;
} catch (const fs::filesystem_error& problem) {
  throw ConfigError(one_line(directory.string() + ": " + problem.code().message()));
}

PluginHost plugins_in(const std::vector<SearchDirectory>& directories,
                      const SearchRequest& request) {
  const std::optional<LockFile>& lock = request.lock;
  TrustPolicy policy{.directories = request.also_trusted,
                     .refused = request.refused,
                     .on_loaded = request.on_loaded};
  for (const SearchDirectory& directory : directories) {
    policy.directories.push_back(directory.path);
    if (directory.origin == SearchDirectory::Origin::program)
      policy.program_directories.push_back(directory.path);
  }
  if (lock) policy.pins = lock->pins();
  PluginHost host(policy);
  Search search{host, policy.pins};
  for (const SearchDirectory& directory : directories) {
    if (!exists_or_consequence(host, directory)) continue;
    try {
      // refuses the directory once, instead of refusing each file in it
      core::resolve_trusted(directory.path);
    } catch (const PluginError& problem) {
      host.refuse(directory.path, problem.what());
      continue;
    }
    load_directory(search, directory.path);
  }
  for (const SearchDirectory& directory : directories) {
    if (directory.origin != SearchDirectory::Origin::user) continue;
    for (ClaimedName& claim : read_claims(directory.path)) host.claim(std::move(claim));
  }
  if (lock) {
    host.load_offered();
    check_complete(host, *lock);
    if (search.left_out > 0) {
      host.refuse(std::to_string(search.left_out) + " other plugin files",
                  "not in the lock file, so not loaded");
    }
  }
  return host;
}

PluginHost find_plugins(const SearchRequest& request) {
  return plugins_in(search_path(request.plugin_dirs, request.program), request);
}

}  // namespace privgrad::host
