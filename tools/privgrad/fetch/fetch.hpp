#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "download.hpp"

namespace privgrad::tool {

struct FetchOptions {
  DownloadOptions download;
  /// Called before a file is asked for.
  std::function<void(const DatasetFile&)> on_file;
};

/// What a folder of the cache holds.
struct Fetched {
  std::filesystem::path folder;
  std::vector<std::string> files;
  bool stopped = false;     ///< Not all of it is there yet; the next fetch goes on.
  bool downloaded = false;  ///< False: all of it was there, unchanged.
};

/// Brings a data set into the cache, or checks the one that is there. Two at a time wait for each
/// other. Every file appears under its name only when it is whole and checked; SHA256SUMS comes
/// last and says that the data set is complete.
/// \throws IoError
Fetched fetch(const KnownDataset& dataset, const FetchOptions& options);

}  // namespace privgrad::tool
