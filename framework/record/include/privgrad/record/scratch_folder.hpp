// A temporary folder that is removed with its object.
#pragma once

#include <filesystem>
#include <string>

namespace privgrad::core {

/// A folder that is removed with its object. It is in memory if there is a file system for that: a
/// ledger waits for its disk, and these files need not outlive the process.
class ScratchFolder {
 public:
  /// \param purpose  a word of its name: "audit".
  /// \throws IoError if none can be made.
  explicit ScratchFolder(const std::string& purpose);
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace privgrad::core
