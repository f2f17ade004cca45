// A regular file that is opened once, so that the checked file is the loaded file.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace privgrad::host {

class OpenFile {
 public:
  /// \throws PluginError ("cannot be opened: ...") if it is missing, unreadable, or not a regular
  ///   file. Never blocks, not even for a named pipe.
  explicit OpenFile(const std::filesystem::path& file);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::uint64_t size() const noexcept { return static_cast<std::uint64_t>(info_.st_size); }
  dev_t device() const noexcept { return info_.st_dev; }
  ino_t inode() const noexcept { return info_.st_ino; }

  /// Fills `to` with `count` bytes from `offset`.
  /// \throws PluginError if some of these bytes are outside the file.
  void read(std::uint64_t offset, void* to, std::size_t count) const;

  /// True if `file` still names this inode, and the file has not been written since it was opened.
  bool is_still(const std::filesystem::path& file) const noexcept;

 private:
  int descriptor_;
  struct stat info_ {};
};

}  // namespace privgrad::host
