// Files that survive a crash: bounded reads, atomic replacement, and append-only logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace privgrad::core {

/// The beginning of a file: never more than `most_bytes`, however long it is, so that the memory is
/// bounded before anything is known of the content.
/// \throws IoError if it cannot be read, or is a directory, a device or a pipe: those may have no
///   end, or make the reader wait for ever.
std::string read_beginning(const std::filesystem::path& file, std::size_t most_bytes);

/// The whole content of a file.
/// \throws IoError as above, and if it is longer than `most_bytes`.
std::string read_whole(const std::filesystem::path& file, std::size_t most_bytes);

/// The whole of standard input, which may be a pipe or a device.
/// \throws IoError if it cannot be read, or is longer than `most_bytes`.
std::string read_standard_input(std::size_t most_bytes);

/// Replaces `file` by `content` so that readers, also after a crash, see either the old file or the
/// whole new one: written beside it, flushed, renamed, directory flushed.
/// \throws IoError naming the file or its directory; no unfinished file is left behind then.
void write_atomically(const std::filesystem::path& file, std::string_view content);

/// Whether a file's name is one that write_atomically() gives to what it has not finished.
bool is_unfinished(std::string_view name);

/// Removes the unfinished files that write_atomically() left in this directory when its process was
/// killed. To be called by the only process that writes there.
/// \throws IoError
void remove_unfinished(const std::filesystem::path& directory);

/// Makes a directory and those above it that are missing, and returns once their names are on the
/// disk.
/// \throws IoError
void make_directories(const std::filesystem::path& directory);

/// Makes a new directory (and its parents) for a run. Of runs that begin in it at once, all may get
/// this far: it belongs to the one that then creates its first AppendOnlyFile.
/// \throws IoError if it cannot be made, or exists and is not empty.
void make_run_directory(const std::filesystem::path& directory);

/// Appends lines to a file and can force them to the disk. The file is locked (flock) for as long as
/// it is open, so that others can see that more may come.
class AppendOnlyFile {
 public:
  /// Creates `file`, which must not exist. Of all who try at once, one succeeds.
  /// \throws IoError
  explicit AppendOnlyFile(std::filesystem::path file);

  /// Goes on with a file from its byte `from` on. What stands there was written by a process that
  /// was cut off, and is about to be made again: append() compares it with what it is given, writes
  /// only what is new, and refuses what differs. A last line that was cut off is taken away.
  /// \throws IoError if the file cannot be opened, is shorter than `from`, or is open in an
  ///   AppendOnlyFile of another process.
  AppendOnlyFile(std::filesystem::path file, std::uint64_t from);
  ~AppendOnlyFile();
  AppendOnlyFile(const AppendOnlyFile&) = delete;
  AppendOnlyFile& operator=(const AppendOnlyFile&) = delete;

  /// Appends all of `text`.
  /// \throws IoError; a part that was written is taken back as far as possible. PrivacyError if
  ///   something else stands there already; nothing is written then.
  void append(std::string_view text);

  /// Bytes that were appended, or found to be there already.
  std::uint64_t position() const noexcept { return position_; }
  /// The text behind that position, which was not appended again yet.
  std::string_view ahead() const noexcept { return ahead_; }

  /// Returns once everything appended is on the disk.
  /// \throws IoError
  void flush_to_disk();

 private:
  [[noreturn]] void fail(const char* action) const;
  std::filesystem::path file_;
  int descriptor_ = -1;
  std::uint64_t position_ = 0;
  std::string ahead_;
};

/// \returns whether some process has the file open in an AppendOnlyFile. False where the file system
///   has no locks.
/// \throws IoError if the file cannot be read.
bool is_being_written(const std::filesystem::path& file);

}  // namespace privgrad::core
