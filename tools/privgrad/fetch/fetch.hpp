// Fetches a public data set into the cache, or checks the existing copy.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "download.hpp"

namespace privgrad::tool {

struct FetchOptions {
  DownloadOptions download;
  /// Called before a file is requested.
  std::function<void(const DatasetFile&)> on_file;
};

/// The content of a data set's folder in the cache.
struct Fetched {
  std::filesystem::path folder;
  std::vector<std::string> files;
  /// Whether the fetch was stopped early; the next fetch continues it.
  bool stopped = false;
  /// Whether files were downloaded; otherwise the copy was complete and unchanged.
  bool downloaded = false;
};

/// Fetches a data set into the cache, or checks the existing copy. Simultaneous fetches wait for
/// each other. Every file appears under its name only when it is complete and checked; SHA256SUMS
/// is written last and marks the data set as complete.
/// \throws IoError if a file cannot be downloaded, converted or written.
Fetched fetch(const KnownDataset& dataset, const FetchOptions& options);

}  // namespace privgrad::tool
