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

/// Optional ability of a data source that reads files, found with dynamic_cast: it names these
/// files. Threads: calls on one instance never overlap.
class PRIVGRAD_API DataFiles {
 public:
  virtual ~DataFiles();
  DataFiles(const DataFiles&) = delete;
  DataFiles& operator=(const DataFiles&) = delete;

  /// \returns the files of all splits.
  /// \throws IoError if they cannot be found.
  virtual std::vector<std::filesystem::path> files() = 0;

 protected:
  DataFiles() = default;
};

}  // namespace privgrad
