// Files that survive a crash: bounded reads, atomic replacement, and append-only logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace privgrad::core {

/// Returns the beginning of a file, at most `most_bytes` of it, so that memory is bounded whatever
/// the file contains.
/// \throws IoError if it cannot be read, or is a directory, a device or a pipe, which may be
///   endless or make the reader wait for ever.
std::string read_beginning(const std::filesystem::path& file, std::size_t most_bytes);

/// Returns the whole content of a file.
/// \throws IoError as read_beginning() does, and if the file is longer than `most_bytes`.
std::string read_whole(const std::filesystem::path& file, std::size_t most_bytes);

/// Returns the whole of standard input, which may be a pipe or a device.
/// \throws IoError if it cannot be read, or is longer than `most_bytes`.
std::string read_standard_input(std::size_t most_bytes);

/// Replaces `file` by `content` such that readers see either the old file or the whole new one,
/// even after a crash: writes a temporary file beside it, syncs it, renames it, and syncs the
/// directory.
/// \throws IoError naming the file or its directory; no temporary file is left behind then.
void write_atomically(const std::filesystem::path& file, std::string_view content);

/// Whether the name has the form that write_atomically() gives to its temporary files.
bool is_unfinished(std::string_view name);

/// Removes the temporary files that write_atomically() left in this directory when its process was
/// killed. Must be called by the only process that writes there.
/// \throws IoError if the directory cannot be read, or a file cannot be removed.
void remove_unfinished(const std::filesystem::path& directory);

/// Makes a directory and its missing parents, and returns once their names are on the disk.
/// \throws IoError if it cannot be made, or its name cannot be flushed to the disk.
void make_directories(const std::filesystem::path& directory);

/// Removes a file if it exists.
/// \throws IoError if it cannot be removed.
void remove_file(const std::filesystem::path& file);

/// Makes a new directory (and its parents) for a run. Several runs that start in it at once may all
/// succeed here: the directory belongs to the run that then creates its first AppendOnlyFile.
/// \throws IoError if it cannot be made, or exists and is not an empty directory.
void make_run_directory(const std::filesystem::path& directory);

/// Appends lines to a file and can force them to the disk. The file is locked (flock) while it is
/// open, so other processes can see that it may still grow.
class AppendOnlyFile {
 public:
  /// Creates `file`, which must not exist. Of several simultaneous attempts, one succeeds.
  /// \throws IoError if `file` exists or cannot be created.
  explicit AppendOnlyFile(std::filesystem::path file);

  /// Continues a file at byte `from`. An interrupted process wrote the text after that byte, and
  /// this process will repeat it: append() compares its argument with that text, writes only new
  /// text, and refuses different text. A truncated last line is removed.
  /// \throws IoError if the file cannot be opened, is shorter than `from`, or is open in an
  ///   AppendOnlyFile of another process.
  AppendOnlyFile(std::filesystem::path file, std::uint64_t from);
  ~AppendOnlyFile();
  AppendOnlyFile(const AppendOnlyFile&) = delete;
  AppendOnlyFile& operator=(const AppendOnlyFile&) = delete;

  /// Appends all of `text`.
  /// \throws IoError if writing fails; the write is undone if possible. PrivacyError if the file
  ///   already contains different text there; nothing is written then.
  void append(std::string_view text);

  /// The byte at which the next append() writes or compares.
  std::uint64_t position() const noexcept { return position_; }
  /// The text in the file after position(), which append() has not repeated yet.
  std::string_view ahead() const noexcept { return ahead_; }

  /// Returns once everything appended is on the disk.
  /// \throws IoError if flushing fails.
  void flush_to_disk();

 private:
  [[noreturn]] void fail(const char* action) const;
  std::filesystem::path file_;
  int descriptor_ = -1;
  std::uint64_t position_ = 0;
  std::string ahead_;
};

/// \returns whether some process has the file open in an AppendOnlyFile. False if the file system
///   has no locks.
/// \throws IoError if the file cannot be read.
bool is_being_written(const std::filesystem::path& file);

}  // namespace privgrad::core
