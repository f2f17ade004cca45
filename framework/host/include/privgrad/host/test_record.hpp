// Finds the record that a plugin file has passed `privgrad plugins test`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/plugin.hpp"

namespace privgrad::host {

/// The version of the conformance suite. Increase it with every new rule that a previously passing
/// plugin may break: records of other versions do not count.
inline constexpr int kSuiteVersion = 1;

/// The record that `privgrad plugins test` found no broken promise in a plugin's file.
///
/// A record is a JSON file, beside the plugin (FILE.tested.json) or, if the tester cannot write to
/// that folder, under the user's data folder by the hash of the file. It guards against forgotten
/// tests, but proves nothing: anyone who can write the plugin can also write the record.
struct TestRecord {
  std::filesystem::path file;  ///< Empty if there is no valid record.
  /// One line that says why no record that was found is valid; "" if there is a valid record, or no
  /// record at all.
  std::string problem;
};

/// Returns the places of a record for a plugin, in order of preference.
/// \param plugin  the resolved path of its file.
/// \param sha256  the hash of that file.
std::vector<std::filesystem::path> record_places(const std::filesystem::path& plugin,
                                                 const std::string& sha256);

/// Finds a valid record of this exact file: only the user or root can write the record, as for
/// plugins; it has the file's hash, comes from this version of the suite, and covers every
/// component that the plugin offers.
/// \param plugin  the loaded plugin: name, hash and resolved path.
TestRecord find_test_record(const PluginIdentity& plugin, const std::vector<Factory>& offered);

}  // namespace privgrad::host
