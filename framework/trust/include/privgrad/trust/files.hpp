#pragma once

#include <filesystem>
#include <string_view>

namespace privgrad::core {

/// Replaces `file` by `content` so that readers, also after a crash, see either the old file or the
/// whole new one: written beside it, flushed, renamed, directory flushed.
/// \throws IoError naming the file; nothing is left behind then.
void write_atomically(const std::filesystem::path& file, std::string_view content);

/// Makes a new directory (and its parents) for a run.
/// \throws IoError if it cannot be made, or exists and is not empty.
void make_run_directory(const std::filesystem::path& directory);

/// Appends lines to a file and can force them to the disk. The file is locked (flock) for as long as
/// it is open, so that others can see that more may come.
class AppendOnlyFile {
 public:
  /// Creates `file`, which must not exist.
  /// \throws IoError
  explicit AppendOnlyFile(std::filesystem::path file);
  ~AppendOnlyFile();
  AppendOnlyFile(const AppendOnlyFile&) = delete;
  AppendOnlyFile& operator=(const AppendOnlyFile&) = delete;

  /// Appends all of `text`.
  /// \throws IoError; a part that was written is taken back as far as possible.
  void append(std::string_view text);

  /// Returns once everything appended is on the disk.
  /// \throws IoError
  void flush_to_disk();

 private:
  [[noreturn]] void fail(const char* action) const;
  std::filesystem::path file_;
  int descriptor_ = -1;
};

/// \returns whether some process has the file open in an AppendOnlyFile. False where the file system
///   has no locks.
/// \throws IoError if the file cannot be read.
bool is_being_written(const std::filesystem::path& file);

}  // namespace privgrad::core
