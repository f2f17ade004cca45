// Reads files from a directory of unknown origin, without following links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace privgrad::core {

/// Reads regular files in a directory of unknown origin. Follows no links in the directory, never
/// blocks, and stops reading a file that grows without end. Threads: const functions may run
/// concurrently.
class RecordDirectory {
 public:
  /// \throws IoError if `path` is not a readable directory.
  explicit RecordDirectory(std::filesystem::path path);
  /// Opens the folder `name` of `parent`.
  /// \throws IoError if `name` is not a readable directory, or is a link.
  RecordDirectory(const RecordDirectory& parent, std::string_view name);
  RecordDirectory(const RecordDirectory&) = delete;
  RecordDirectory& operator=(const RecordDirectory&) = delete;
  ~RecordDirectory();

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Whether the directory has a file, folder or other entry of this name.
  /// \param name  a path below the directory, such as "ledgers/client-0.jsonl".
  bool has(std::string_view name) const;

  /// \returns the whole file.
  /// \throws IoError "NAME: what is wrong" if the file is missing, unreadable, not regular or too
  ///   long.
  std::string read(std::string_view name, std::size_t most_bytes) const;

  /// \returns the file's first `bytes` bytes; the whole file if it is shorter.
  /// \throws IoError if the file is missing, unreadable or not regular.
  std::string read_beginning(std::string_view name, std::size_t bytes) const;

  /// \throws IoError if the file is missing, unreadable or not regular.
  std::uint64_t size(std::string_view name) const;

  /// \returns the SHA-256 of the file; nothing if there is no such file.
  /// \throws IoError if the file is unreadable or not regular.
  std::optional<std::string> sha256(std::string_view name) const;

  /// \returns the names in a folder of the directory, sorted; none if there is no such folder.
  /// \throws IoError if there are more than `most` names.
  std::vector<std::string> names(std::string_view folder, std::size_t most) const;

 private:
  class File;
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace privgrad::core
