#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "known_datasets.hpp"

namespace privgrad::tool {

struct DownloadOptions {
  int timeout_s = 30;                       ///< Without a byte for so long, an address is given up.
  const std::atomic<bool>* stop = nullptr;  ///< When it becomes true the download ends.
  /// Called with the bytes of the file that are here.
  std::function<void(std::uint64_t)> on_bytes;
  /// Called with something that the user may want to know, e.g. why another address is tried.
  std::function<void(const std::string&)> on_note;
};

/// Brings a file to `to`, which then holds exactly the bytes that its SHA-256 promises: it arrives
/// as `to`.part, is checked, flushed and renamed. A part that is there already is gone on with.
/// Addresses are tried in order; one that was interrupted after it sent something is asked again
/// for the rest.
/// \returns false if it was stopped; the part is kept, for the next time.
/// \throws IoError  no address gave the file (with what each did wrong), or the disk failed.
bool download(const DatasetFile& file, const std::filesystem::path& to,
              const DownloadOptions& options);

/// \throws IoError
std::string sha256_of(const std::filesystem::path& file);

}  // namespace privgrad::tool
