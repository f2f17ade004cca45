// Finds the record that a plugin file has passed `privgrad plugins test`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/catalog.hpp"
#include "privgrad/plugin.hpp"

namespace privgrad::host {

/// Version of the conformance suite. Raise it when a rule is added that a plugin which passed
/// before may break: records of other versions then no longer count.
inline constexpr int kSuiteVersion = 1;

/// The record about a plugin's file that `privgrad plugins test` found no broken promise.
///
/// A record is a JSON file of its own, beside the plugin (FILE.tested.json) or, where that folder is
/// not the tester's to write, under the user's data folder by the hash of the file. It is a note
/// that the test was made, for those who did not mean to skip it, and no proof: whoever may write
/// the plugin may write the record.
struct TestRecord {
  std::filesystem::path file;  ///< The record; empty: there is none that counts.
  /// Why there is none that counts, one line; "" if nobody wrote one.
  std::string problem;
};

/// The places where a record for a plugin may lie; the first that counts is taken.
/// \param plugin  the resolved path of its file.
/// \param sha256  the hash of that file.
std::vector<std::filesystem::path> record_places(const std::filesystem::path& plugin,
                                                 const std::string& sha256);

/// Looks for a record of this very file: one that nobody else may write, as plugins themselves, of
/// the same hash, made by this version of the suite, of every component that the plugin offers.
/// \param plugin  as loaded: name, hash and resolved path.
TestRecord find_test_record(const PluginIdentity& plugin, const std::vector<Factory>& offered);

}  // namespace privgrad::host
