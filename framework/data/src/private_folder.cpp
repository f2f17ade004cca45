#include "privgrad/data/private_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "privgrad/error.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

/// Turns "a/b/" into "a/b", so that the last part is the folder that becomes private.
fs::path without_end(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

void make_private_folder(const fs::path& folder) {
  if (!folder.parent_path().empty()) make_directories(folder.parent_path());
  // Mode 0700 is safe, because a umask can only remove permissions.
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw IoError(folder.string() + ": cannot be made: " + words_of(errno));
}

}  // namespace

bool Descriptor::close() noexcept {
  return number_ < 0 || ::close(std::exchange(number_, -1)) == 0;
}

PrivateFolder::PrivateFolder(const fs::path& folder) : path_(without_end(folder)) {
  make_private_folder(path_);
  descriptor_ = open(path_);
  if (!descriptor_) throw IoError(path_.string() + ": has vanished");
}

Descriptor PrivateFolder::open(const fs::path& folder) {
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened && errno == ENOENT) return opened;
  struct stat facts {};
  if (!opened || ::fstat(opened.get(), &facts) != 0)
    throw IoError(folder.string() + ": cannot be opened as a folder: " + words_of(errno));
  if (facts.st_uid != ::geteuid() || (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw ConfigError(folder.string() +
                      ": belongs to other users or is open to them, but it contains private copies "
                      "of data; give your own folder with mode 0700");
  }
  return opened;
}

std::string words_of(int error) { return std::generic_category().message(error); }

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool read_all(int descriptor, std::span<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool read_all_at(int descriptor, std::uint64_t place, std::span<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(place));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    place += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

std::string size_words(std::uint64_t bytes) {
  constexpr std::uint64_t kMillion = 1'000'000;
  return bytes < kMillion ? std::to_string(bytes) + " bytes"
                          : std::to_string(bytes / kMillion) + " MB";
}

}  // namespace privgrad::core
