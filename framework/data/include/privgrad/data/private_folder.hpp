// Folders that only the user can read, for private copies of data, and the files in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace privgrad::core {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  /// \returns whether the system reported no failure of earlier writes.
  bool close() noexcept;

 private:
  int number_;
};

/// A folder for private copies of data, with mode 0700, owned by the user, and not a link.
///
/// Privacy: no other user can read it. Threads: const functions may run concurrently.
class PrivateFolder {
 public:
  /// Creates the folder if it is missing.
  /// \throws ConfigError if it can be opened, but belongs to another user or is accessible by
  ///   others; IoError if it is a link or not a folder, or cannot be created or opened (such as
  ///   another user's folder with mode 0700).
  explicit PrivateFolder(const std::filesystem::path& folder);

  /// Opens an existing folder. \returns its descriptor, or an invalid one if there is no folder.
  /// \throws as the constructor.
  static Descriptor open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const noexcept { return path_; }
  int get() const noexcept { return descriptor_.get(); }

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

/// Returns the operating system's text for an error number.
std::string words_of(int error);

/// \returns whether all bytes were written; if not, errno gives the reason.
bool write_all(int descriptor, std::string_view bytes);

/// \returns whether all of `bytes` could be read.
bool read_all(int descriptor, std::span<char> bytes);

/// Does the same as read_all(), from an offset in a file.
bool read_all_at(int descriptor, std::uint64_t place, std::span<char> bytes);

/// Returns a size in words: "6200 MB".
std::string size_words(std::uint64_t bytes);

}  // namespace privgrad::core
