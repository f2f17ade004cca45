// For data sources that read files, so that the core can name these files and watch them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/export.hpp"

namespace privgrad {

/// The same text for the same file or folder, by whatever path: its device and number there, or the
/// path where there is no such file.
PRIVGRAD_API std::string file_identity(const std::filesystem::path& path);

}  // namespace privgrad
