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

/// A directory of unknown origin: reads only regular files inside it, follows no links, never
/// blocks, and reads nothing beyond a limit. Threads: const functions may run concurrently.
class RecordDirectory {
 public:
  /// \throws IoError if it is not a readable directory.
  explicit RecordDirectory(std::filesystem::path path);
  /// A folder inside another one.
  /// \throws IoError as above, also for a link.
  RecordDirectory(const RecordDirectory& parent, std::string_view name);
  RecordDirectory(const RecordDirectory&) = delete;
  RecordDirectory& operator=(const RecordDirectory&) = delete;
  ~RecordDirectory();

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Whether the directory has a file, folder or other entry of this name.
  /// \param name  below the directory: "ledger.jsonl", "ledgers/client-0.jsonl".
  bool has(std::string_view name) const;

  /// \returns the whole file.
  /// \throws IoError "NAME: what is wrong" if it is missing, longer, or not a regular file.
  std::string read(std::string_view name, std::size_t most_bytes) const;

  /// \returns the beginning of the file; all of it if it is not longer.
  /// \throws IoError as read().
  std::string read_beginning(std::string_view name, std::size_t bytes) const;

  /// \throws IoError as read().
  std::uint64_t size(std::string_view name) const;

  /// \returns the SHA-256 of the file; nothing if there is no such file.
  /// \throws IoError as read().
  std::optional<std::string> sha256(std::string_view name) const;

  /// \returns the names in a folder of the directory, sorted; none if there is no such folder.
  /// \throws IoError if there are more than `most`.
  std::vector<std::string> names(std::string_view folder, std::size_t most) const;

 private:
  class File;
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace privgrad::core
