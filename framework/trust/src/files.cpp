#include "privgrad/trust/files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

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

void flush_directory_of(const fs::path& file) {
  const fs::path parent = file.parent_path().empty() ? fs::path(".") : file.parent_path();
  const Descriptor directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot flush a directory (EINVAL); the name is then as safe as it can be.
  if (directory.get() < 0 || (::fsync(directory.get()) != 0 && errno != EINVAL)) {
    throw IoError(parent.string() + ": cannot be flushed to disk: " + last_error());
  }
}

}  // namespace

void write_atomically(const fs::path& file, std::string_view content) {
  std::string temporary = file.string() + ".XXXXXX";
  const Descriptor out(::mkostemp(temporary.data(), O_CLOEXEC));
  if (out.get() < 0) throw IoError(file.string() + ": cannot be written: " + last_error());
  // mkostemp makes files that only the owner may read; a run's record is as readable as the umask
  // says.
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

void make_run_directory(const fs::path& directory) {
  std::error_code failure;
  if (fs::exists(directory, failure)) {
    if (!fs::is_directory(directory, failure)) {
      throw IoError(directory.string() +
                    ": exists and is no directory; choose another one with --out");
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
  fs::create_directories(directory, failure);
  if (failure) throw IoError(directory.string() + ": cannot be made: " + failure.message());
}

AppendOnlyFile::AppendOnlyFile(fs::path file) : file_(std::move(file)) {
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("created");
  // For is_being_written(); not every file system has locks, and nothing else rests on this one.
  [[maybe_unused]] const int ignored = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  try {
    flush_directory_of(file_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

AppendOnlyFile::~AppendOnlyFile() { ::close(descriptor_); }

void AppendOnlyFile::append(std::string_view text) {
  struct stat before {};
  if (::fstat(descriptor_, &before) != 0) fail("inspected");
  if (write_all(descriptor_, text)) return;
  const int why = errno;
  // The half line would read as a torn tail anyway; without it the file is as if nothing had
  // happened.
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
