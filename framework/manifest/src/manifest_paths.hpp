// Finds the files that a manifest names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/params.hpp"

namespace privgrad::core {

/// Returns the folders in which relative paths of a manifest are looked up, in order: the
/// manifest's own folder, then PRIVGRAD_DATA_DIR if it is set. All are absolute.
std::vector<std::filesystem::path> data_folders(const std::filesystem::path& manifest);

/// Replaces every parameter of type path, including nested ones, by the absolute path of its file;
/// reports paths without a file.
/// \param where  dotted key of `value`.
/// \param folders  empty: paths are not changed.
void resolve_paths(const std::vector<ParamSpec>& specs, Value& value, const std::string& where,
                   const std::vector<std::filesystem::path>& folders, ManifestProblems& problems);

}  // namespace privgrad::core
