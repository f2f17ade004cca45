// Finds the files that a manifest names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/params.hpp"

namespace privgrad::core {

/// The folders in which relative paths of a manifest are searched, in order: the manifest's own,
/// then PRIVGRAD_DATA_DIR if it is set. All absolute.
std::vector<std::filesystem::path> data_folders(const std::filesystem::path& manifest);

/// Replaces every parameter of type path, including nested ones, by the absolute path of its file;
/// reports paths without a file.
/// \param where  dotted key of `value`.
/// \param folders  empty: paths stay as they are.
void resolve_paths(const std::vector<ParamSpec>& specs, Value& value, const std::string& where,
                   const std::vector<std::filesystem::path>& folders, ManifestProblems& problems);

}  // namespace privgrad::core
