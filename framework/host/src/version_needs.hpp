// Reads the versions of the platform's libraries that a plugin's file needs.
#pragma once

#include <string>
#include <vector>

#include "open_file.hpp"

namespace privgrad::host {

/// A version of a library: "libstdc++.so.6", "GLIBCXX_3.4.30".
struct VersionNeed {
  std::string library, version;
};

/// Returns the library versions without which a shared object cannot be loaded.
/// \throws PluginError if the file's list of versions is malformed.
std::vector<VersionNeed> read_version_needs(const OpenFile& file);

/// Compares the versions that a file needs with the versions in this process's libraries.
/// Libraries that are not loaded yet are left to the dynamic linker.
/// \throws PluginError, with a remedy, if a library lacks a version.
void check_version_needs(const OpenFile& file);

}  // namespace privgrad::host
