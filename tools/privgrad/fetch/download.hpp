// Downloads a file, resumes an interrupted download, and checks the file's SHA-256.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "known_datasets.hpp"

namespace privgrad::tool {

struct DownloadOptions {
  int timeout_s = 30;                       ///< An address is given up after so long a silence.
  const std::atomic<bool>* stop = nullptr;  ///< Once true, the download ends.
  /// Called with the number of the file's bytes that have arrived.
  std::function<void(std::uint64_t)> on_bytes;
  /// Called with notes for the user, such as why another address is tried.
  std::function<void(const std::string&)> on_note;
};

/// Downloads a file to `to`, which then holds exactly the bytes that its SHA-256 promises: it
/// arrives as `to`.part, is checked, flushed and renamed. An existing part is continued.
/// Addresses are tried in order; one that was interrupted after it sent something is asked again
/// for the rest.
/// \returns false if it was stopped; the part is kept for the next time.
/// \throws IoError  no address gave the file (with each one's failure), or the disk failed.
bool download(const DatasetFile& file, const std::filesystem::path& to,
              const DownloadOptions& options);

/// \throws IoError
std::string sha256_of(const std::filesystem::path& file);

}  // namespace privgrad::tool
