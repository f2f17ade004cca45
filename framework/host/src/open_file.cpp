#include "open_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "privgrad/error.hpp"

namespace privgrad::host {
namespace {

bool same_moment(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

OpenFile::OpenFile(const std::filesystem::path& file)
    // O_NONBLOCK, because otherwise opening a named pipe would wait for a writer.
    : descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
  if (descriptor_ < 0) {
    throw PluginError(std::string("cannot be opened: ") + std::strerror(errno));
  }
  if (::fstat(descriptor_, &info_) != 0 || !S_ISREG(info_.st_mode)) {
    ::close(descriptor_);
    throw PluginError("cannot be opened: not a regular file");
  }
}

OpenFile::~OpenFile() { ::close(descriptor_); }

void OpenFile::read(std::uint64_t offset, void* to, std::size_t count) const {
  // Offsets come from the file and may have any value, so the comparison must not overflow.
  if (offset > size() || count > size() - offset) throw PluginError("file ends too early");
  auto* bytes = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, bytes, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw PluginError(std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) throw PluginError("file ends too early");
    bytes += got;
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::size_t>(got);
  }
}

bool OpenFile::is_still(const std::filesystem::path& file) const noexcept {
  struct stat now {};
  return ::lstat(file.c_str(), &now) == 0 && now.st_dev == info_.st_dev &&
         now.st_ino == info_.st_ino && now.st_size == info_.st_size &&
         same_moment(now.st_mtim, info_.st_mtim) && same_moment(now.st_ctim, info_.st_ctim);
}

}  // namespace privgrad::host
