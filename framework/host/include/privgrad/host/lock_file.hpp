// Writes and reads privgrad.lock, the list of the exact plugin files that a run used.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"

namespace privgrad::host {

/// One [[plugin]] section of a lock file.
struct LockedPlugin {
  std::string name;
  std::string version;
  std::string file;    ///< Base name, "*.privgrad.so": a lock file moves between machines.
  std::string sha256;  ///< 64 lower-case hex digits.
  std::string abi;
  /// The traits that the used components declare (privgrad/traits.hpp), separated by blanks; "" if
  /// there are none.
  std::string traits = {};
};

/// The plugins that a run used, with enough detail to require exactly these plugins. The hashes
/// cover the plugins, but not the libraries that plugins link.
struct LockFile {
  std::filesystem::path path;  ///< The file from which it was read, for messages.
  std::vector<LockedPlugin> plugins;

  /// Returns the hashes for TrustPolicy: file name -> SHA-256.
  std::multimap<std::string, std::string> pins() const;
};

/// \param used  the plugins that a run used; duplicates are written once.
/// \param traits  the traits of the used components, by the plugin's name.
/// \returns the lock file for them: TOML, sorted by name, the same bytes for the same plugins.
std::string lock_file_text(std::span<const PluginIdentity> used,
                           const std::map<std::string, std::set<std::string>>& traits = {});

/// Reads a file that lock_file_text() wrote, in any TOML layout that uses plain strings: `lock = 1`
/// and `plugins = NUMBER`, then NUMBER sections `[[plugin]]` with exactly the keys of LockedPlugin,
/// of which `traits` may be missing.
/// \throws IoError ("FILE:LINE: what is wrong, what is expected") for all other content, and for
///   more than 1 MiB.
LockFile read_lock_file(const std::filesystem::path& file);

}  // namespace privgrad::host
