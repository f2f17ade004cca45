// For data sources that read files, so that the core can name and watch these files.
#pragma once

#include <filesystem>
#include <string>

#include "privgrad/export.hpp"

namespace privgrad {

/// Returns the same text for the same file or folder, whatever path is given: its device and inode
/// number, or the path if no such file exists.
PRIVGRAD_API std::string file_identity(const std::filesystem::path& path);

}  // namespace privgrad
