#include "privgrad/trust/files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

std::string last_error() { return std::generic_category().message(errno); }

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

/// \returns false, with errno set, if not everything could be written.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// \param name  the name for errors.
/// \returns at most `most_bytes`; fewer only at the end.
std::string read_up_to(int descriptor, std::size_t most_bytes, const std::string& name) {
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (text.size() < most_bytes) {
    const std::size_t wanted = std::min(buffer.size(), most_bytes - text.size());
    const ssize_t got = ::read(descriptor, buffer.data(), wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError(name + ": cannot be read: " + last_error());
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// A regular file, which has an end.
class RegularFile {
 public:
  explicit RegularFile(const fs::path& file)
      : name_(file.string()),
        // Nonblocking, because opening a pipe without a writer would wait for ever; it has no
        // effect on a regular file.
        in_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    struct stat status {};
    if (in_.get() < 0 || ::fstat(in_.get(), &status) != 0)
      throw IoError(name_ + ": cannot be read: " + last_error());
    if (S_ISDIR(status.st_mode)) throw IoError(name_ + ": is a directory, expected a file");
    if (!S_ISREG(status.st_mode)) throw IoError(name_ + ": is a device or a pipe, expected a file");
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  /// The size in bytes when the file was opened.
  std::uint64_t size() const { return size_; }
  std::string read(std::size_t most_bytes) const {
    return read_up_to(in_.get(), most_bytes, name_);
  }

 private:
  std::string name_;
  Descriptor in_;
  std::uint64_t size_ = 0;
};

void check_length(std::uint64_t length, std::size_t most_bytes, const std::string& name) {
  if (length <= most_bytes) return;
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const std::string most = most_bytes % kMiB == 0 ? std::to_string(most_bytes / kMiB) + " MiB"
                                                  : std::to_string(most_bytes) + " bytes";
  throw IoError(name + ": is longer than " + most + ", the most that is read of it");
}

void flush_directory_of(const fs::path& file) {
  const fs::path parent = file.parent_path().empty() ? fs::path(".") : file.parent_path();
  const Descriptor directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot flush a directory (EINVAL); nothing more can then be done to put the
  // name on the disk.
  if (directory.get() < 0 || (::fsync(directory.get()) != 0 && errno != EINVAL)) {
    throw IoError(parent.string() + ": cannot be flushed to disk: " + last_error());
  }
}

}  // namespace

std::string read_beginning(const fs::path& file, std::size_t most_bytes) {
  return RegularFile(file).read(most_bytes);
}

std::string read_whole(const fs::path& file, std::size_t most_bytes) {
  const RegularFile in(file);
  check_length(in.size(), most_bytes, file.string());
  std::string text = in.read(most_bytes + 1);
  check_length(text.size(), most_bytes, file.string());  // the file may have grown
  return text;
}

std::string read_standard_input(std::size_t most_bytes) {
  const std::string name = "standard input";
  std::string text = read_up_to(STDIN_FILENO, most_bytes + 1, name);
  check_length(text.size(), most_bytes, name);
  return text;
}

namespace {

/// Marks the name of a temporary file; six unique characters follow.
constexpr std::string_view kUnfinished = ".unfinished-";
constexpr std::size_t kDrawn = 6;

}  // namespace

bool is_unfinished(std::string_view name) {
  const std::size_t end = kUnfinished.size() + kDrawn;
  return name.size() > end && name.substr(name.size() - end, kUnfinished.size()) == kUnfinished;
}

void remove_unfinished(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(directory, failure)) {
    if (is_unfinished(entry.path().filename().string())) found.push_back(entry.path());
  }
  if (failure) throw IoError(directory.string() + ": cannot be read: " + failure.message());
  for (const fs::path& file : found) {
    if (::unlink(file.c_str()) != 0)
      throw IoError(file.string() + ": cannot be removed: " + last_error());
  }
}

void write_atomically(const fs::path& file, std::string_view content) {
  std::string temporary = file.string() + std::string(kUnfinished) + std::string(kDrawn, 'X');
  const Descriptor out(::mkostemp(temporary.data(), O_CLOEXEC));
  if (out.get() < 0) throw IoError(file.string() + ": cannot be written: " + last_error());
  // mkostemp makes files that only the owner can read, but a run's files should have the mode that
  // the umask allows.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const bool written = write_all(out.get(), content) && ::fchmod(out.get(), 0666 & ~mask) == 0 &&
                       ::fsync(out.get()) == 0 && ::rename(temporary.c_str(), file.c_str()) == 0;
  if (!written) {
    const std::string why = last_error();
    ::unlink(temporary.c_str());
    throw IoError(file.string() + ": cannot be written: " + why);
  }
  flush_directory_of(file);
}

void make_directories(const fs::path& directory) {
  std::vector<fs::path> missing;
  std::error_code failure;
  for (fs::path path = directory; !path.empty(); path = path.parent_path()) {
    const bool is_there = fs::exists(path, failure);
    if (failure) throw IoError(path.string() + ": cannot be inspected: " + failure.message());
    if (is_there) break;
    // "a/" has an empty last part, and its parent is "a".
    if (path.has_filename()) missing.push_back(path);
  }
  fs::create_directories(directory, failure);
  if (failure) throw IoError(directory.string() + ": cannot be made: " + failure.message());
  for (const fs::path& made : missing) flush_directory_of(made);
}

void remove_file(const fs::path& file) {
  std::error_code failure;
  fs::remove(file, failure);
  if (failure) throw IoError(file.string() + ": cannot be removed: " + failure.message());
}

void make_run_directory(const fs::path& directory) {
  std::error_code failure;
  if (fs::exists(directory, failure)) {
    if (!fs::is_directory(directory, failure)) {
      throw IoError(directory.string() +
                    ": exists and is not a directory; choose another one with --out");
    }
    const bool empty = fs::is_empty(directory, failure);
    if (failure) throw IoError(directory.string() + ": cannot be read: " + failure.message());
    if (!empty) {
      throw IoError(
          directory.string() +
          ": exists and is not empty; a run never overwrites another, choose another --out");
    }
    return;
  }
  if (failure) throw IoError(directory.string() + ": cannot be inspected: " + failure.message());
  make_directories(directory);
}

AppendOnlyFile::AppendOnlyFile(fs::path file) : file_(std::move(file)) {
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0 && errno == EEXIST) {
    throw IoError(file_.string() + ": exists, and is never overwritten; choose another place");
  }
  if (descriptor_ < 0) fail("created");
  // Only is_being_written() needs the lock, so file systems without locks are fine.
  [[maybe_unused]] const int ignored = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  try {
    flush_directory_of(file_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

AppendOnlyFile::AppendOnlyFile(fs::path file, std::uint64_t from)
    : file_(std::move(file)), position_(from) {
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor_ < 0) fail("opened");
  try {
    struct stat now {};
    if (::fstat(descriptor_, &now) != 0) fail("inspected");
    if (!S_ISREG(now.st_mode)) throw IoError(file_.string() + ": is not a regular file");
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      throw IoError(file_.string() + ": is in use: another process is writing it");
    if (static_cast<std::uint64_t>(now.st_size) < from) {
      throw IoError(file_.string() + ": has " + std::to_string(now.st_size) + " bytes, and had " +
                    std::to_string(from) + " when the checkpoint was made");
    }
    if (::lseek(descriptor_, static_cast<off_t>(from), SEEK_SET) < 0) fail("read");
    ahead_ = read_up_to(descriptor_, static_cast<std::size_t>(now.st_size) - from, file_.string());
    const std::size_t whole = ahead_.rfind('\n');
    const std::size_t kept = whole == ahead_.npos ? 0 : whole + 1;
    if (kept != ahead_.size() && ::ftruncate(descriptor_, static_cast<off_t>(from + kept)) != 0)
      fail("cut at its last whole line");
    ahead_.resize(kept);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

AppendOnlyFile::~AppendOnlyFile() { ::close(descriptor_); }

void AppendOnlyFile::append(std::string_view text) {
  const std::size_t known = std::min(text.size(), ahead_.size());
  if (text.substr(0, known) != std::string_view(ahead_).substr(0, known)) {
    throw PrivacyError(file_.string() + ": byte " + std::to_string(position_) +
                       " on: the repeated steps write something else than the run had written; the "
                       "run cannot be resumed here");
  }
  ahead_.erase(0, known);
  position_ += known;
  text.remove_prefix(known);
  if (text.empty()) return;
  struct stat before {};
  if (::fstat(descriptor_, &before) != 0) fail("inspected");
  if (write_all(descriptor_, text)) {
    position_ += text.size();
    return;
  }
  const int why = errno;
  // Removes the truncated line, so that the file is as before; readers would ignore that line.
  [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, before.st_size);
  errno = why;
  fail("written");
}

void AppendOnlyFile::flush_to_disk() {
  if (::fdatasync(descriptor_) != 0) fail("flushed to disk");
}

bool is_being_written(const fs::path& file) {
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (in.get() < 0) throw IoError(file.string() + ": cannot be read: " + last_error());
  return ::flock(in.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void AppendOnlyFile::fail(const char* action) const {
  throw IoError(file_.string() + ": cannot be " + action + ": " + last_error());
}

}  // namespace privgrad::core
