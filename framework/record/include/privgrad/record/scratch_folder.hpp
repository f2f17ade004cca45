// A temporary folder that is removed with its object.
#pragma once

#include <filesystem>
#include <string>

namespace privgrad::core {

/// A folder that is removed with its object. It is in memory if possible, because ledgers wait for
/// the disk, and files in this folder need not outlive the process.
class ScratchFolder {
 public:
  /// \param purpose  a word for the folder's name, such as "audit".
  /// \throws IoError if the folder cannot be made.
  explicit ScratchFolder(const std::string& purpose);
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace privgrad::core
