#include "privgrad/record/record_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

/// Opens `name`, a path below `directory`, folder by folder and without following links.
/// \returns a descriptor, or -1 with errno set.
int open_below(int directory, std::string_view name, int flags) {
  int at = directory;
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string part(name.substr(0, slash));
    if (part.empty() || part == "." || part == "..") {
      if (at != directory) ::close(at);
      errno = EINVAL;
      return -1;
    }
    const bool is_last = slash == name.npos;
    const int next = ::openat(at, part.c_str(),
                              (is_last ? flags : O_DIRECTORY) | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const int why = errno;
    if (at != directory) ::close(at);
    errno = why;
    if (next < 0 || is_last) return next;
    at = next;
    name.remove_prefix(slash + 1);
  }
}

}  // namespace

/// A regular file, open unless it is missing.
class RecordDirectory::File {
 public:
  File(int directory, std::string_view name) : name_(name) {
    // Without O_NONBLOCK, opening a pipe without a writer would block.
    descriptor_ = open_below(directory, name, O_NONBLOCK);
    if (descriptor_ < 0) {
      is_missing_ = errno == ENOENT || errno == ENOTDIR;
      if (is_missing_) return;
      fail(errno == ELOOP ? "is a link, which is not followed"
                          : "cannot be read: " + std::generic_category().message(errno));
    }
    struct stat facts {};
    const bool is_file = ::fstat(descriptor_, &facts) == 0 && S_ISREG(facts.st_mode);
    if (!is_file) {
      ::close(descriptor_);
      descriptor_ = -1;
      fail("is not a regular file");
    }
    size_ = static_cast<std::uint64_t>(facts.st_size);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  bool is_missing() const { return is_missing_; }
  void require() const {
    if (is_missing_) fail("is missing");
  }
  std::uint64_t size() const { return size_; }

  /// \returns the number of bytes read; fewer than requested at the end of the file.
  std::size_t read(char* to, std::size_t count) const {
    std::size_t done = 0;
    while (done < count) {
      const ssize_t got = ::read(descriptor_, to + done, count - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("cannot be read: " + std::generic_category().message(errno));
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  [[noreturn]] void fail(const std::string& what) const { throw IoError(name_ + ": " + what); }

 private:
  std::string name_;
  int descriptor_ = -1;
  bool is_missing_ = false;
  std::uint64_t size_ = 0;
};

RecordDirectory::RecordDirectory(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ >= 0) return;
  throw IoError(path_.string() +
                ": is not a readable directory: " + std::generic_category().message(errno));
}

RecordDirectory::RecordDirectory(const RecordDirectory& parent, std::string_view name)
    : path_(parent.path_ / name), descriptor_(open_below(parent.descriptor_, name, O_DIRECTORY)) {
  if (descriptor_ >= 0) return;
  throw IoError(std::string(name) +
                ": is not a readable directory: " + std::generic_category().message(errno));
}

RecordDirectory::~RecordDirectory() { ::close(descriptor_); }

bool RecordDirectory::has(std::string_view name) const {
  const std::size_t slash = name.rfind('/');
  int folder = descriptor_;
  if (slash != name.npos) folder = open_below(descriptor_, name.substr(0, slash), O_DIRECTORY);
  if (folder < 0) return false;
  struct stat facts {};
  const std::string last(slash == name.npos ? name : name.substr(slash + 1));
  const bool found = ::fstatat(folder, last.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (folder != descriptor_) ::close(folder);
  return found;
}

std::string RecordDirectory::read(std::string_view name, std::size_t most_bytes) const {
  std::string text = read_beginning(name, most_bytes + 1);
  if (text.size() > most_bytes) {
    throw IoError(std::string(name) + ": is longer than " + std::to_string(most_bytes) +
                  " bytes, the most that is read");
  }
  return text;
}

std::string RecordDirectory::read_beginning(std::string_view name, std::size_t bytes) const {
  const File file(descriptor_, name);
  file.require();
  // Reads at most one byte more than the file's size, in case the file grows without end.
  std::string text(std::min<std::uint64_t>(bytes, file.size() + 1), '\0');
  text.resize(file.read(text.data(), text.size()));
  return text;
}

std::uint64_t RecordDirectory::size(std::string_view name) const {
  const File file(descriptor_, name);
  file.require();
  return file.size();
}

std::optional<std::string> RecordDirectory::sha256(std::string_view name) const {
  const File file(descriptor_, name);
  if (file.is_missing()) return std::nullopt;
  Sha256 hash;
  std::string piece(std::size_t{1} << 18, '\0');
  for (std::uint64_t left = file.size() + 1; left > 0;) {
    const std::size_t got = file.read(piece.data(), std::min<std::uint64_t>(left, piece.size()));
    if (got == 0) break;
    hash.add(std::string_view(piece).substr(0, got));
    left -= got;
  }
  return hash.hex();
}

std::vector<std::string> RecordDirectory::names(std::string_view folder, std::size_t most) const {
  const int opened = open_below(descriptor_, folder, O_DIRECTORY);
  if (opened < 0) return {};
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(opened), ::closedir);
  if (entries == nullptr) {
    ::close(opened);
    return {};
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(entries.get())) {
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == most) {
      throw IoError(std::string(folder) + ": holds more than " + std::to_string(most) + " files");
    }
    names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace privgrad::core
