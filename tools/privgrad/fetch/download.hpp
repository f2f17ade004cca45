// Downloads a file, resumes an interrupted download, and checks the file's SHA-256.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "known_datasets.hpp"

namespace privgrad::tool {

struct DownloadOptions {
  /// The time without data after which the next address is tried.
  int timeout_s = 30;
  const std::atomic<bool>* stop = nullptr;  ///< The download ends once this is true.
  /// Called with the number of bytes of the file that have arrived.
  std::function<void(std::uint64_t)> on_bytes;
  /// Called with notes for the user, such as the reason for trying another address.
  std::function<void(const std::string&)> on_note;
};

/// Downloads a file to `to`, which then has exactly the given SHA-256: the download is written to
/// `to`.part, checked, flushed and renamed. An existing part is continued. Addresses are tried in
/// order; if an address breaks off after sending some bytes, it is asked for the rest.
/// \returns false if the download was stopped; the part is kept for the next time.
/// \throws IoError if no address provided the file (with the failure of each address), or if a
///   write fails.
bool download(const DatasetFile& file, const std::filesystem::path& to,
              const DownloadOptions& options);

/// \throws IoError if the file cannot be read.
std::string sha256_of(const std::filesystem::path& file);

}  // namespace privgrad::tool
