#include "fetch.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <sstream>
#include <system_error>
#include <thread>

#include "cifar_archive.hpp"
#include "privgrad/dataset_cache.hpp"
#include "privgrad/error.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

/// SHA-256 by file name.
using Sums = std::map<std::string, std::string>;

bool is_stopped(const FetchOptions& options) {
  return options.download.stop != nullptr && options.download.stop->load();
}

/// A lock on a folder that is being changed. The system releases it when the process ends, in
/// whatever way.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : path_(folder / ".lock"),
        descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)) {
    if (descriptor_ < 0) fail();
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() { ::close(descriptor_); }

  /// \returns whether the lock is held now.
  bool try_lock() {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) fail();
    return false;
  }

 private:
  [[noreturn]] void fail() const {
    throw IoError(path_.string() + ": cannot be locked: " + std::generic_category().message(errno));
  }
  fs::path path_;
  int descriptor_;
};

/// \returns false if the call was stopped while it waited.
bool wait_for(FolderLock& lock, const std::string& name, const FetchOptions& options) {
  constexpr auto kPause = std::chrono::milliseconds(100);
  if (lock.try_lock()) return true;
  if (options.download.on_note) {
    options.download.on_note("another fetch of " + name + " is at work; waiting for it");
  }
  while (!lock.try_lock()) {
    if (is_stopped(options)) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

fs::path folder_for(const KnownDataset& dataset) {
  const fs::path cache = dataset_cache();
  if (cache.empty()) {
    throw IoError(
        "there is no place for data sets: set PRIVGRAD_CACHE_DIR, XDG_CACHE_HOME or HOME");
  }
  fs::path folder = cache / dataset.name;
  core::make_directories(folder);
  return folder;
}

Sums read_sums(const fs::path& file) {
  constexpr std::size_t kDigits = 64;
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  Sums sums;
  std::error_code absent;
  if (!fs::exists(file, absent)) return sums;
  std::istringstream in(core::read_whole(file, kMostBytes));
  for (std::string line; std::getline(in, line);) {
    if (line.size() > kDigits + 2) sums[line.substr(kDigits + 2)] = line.substr(0, kDigits);
  }
  return sums;
}

std::string sums_text(const Sums& sums) {
  std::string text;
  for (const auto& [name, sha256] : sums)
    text.append(sha256).append("  ").append(name).append("\n");
  return text;
}

bool holds(const fs::path& file, const std::string& sha256) {
  std::error_code absent;
  return fs::is_regular_file(file, absent) && sha256_of(file) == sha256;
}

bool holds_all(const fs::path& folder, const Sums& sums) {
  for (const auto& [name, sha256] : sums) {
    if (!holds(folder / name, sha256)) return false;
  }
  return !sums.empty();
}

/// Returns the checksums of a complete folder: as published or, for files that were converted here,
/// as recorded after the conversion. Empty if the folder was never complete.
Sums expected_sums(const KnownDataset& dataset, const fs::path& folder) {
  const fs::path recorded = folder / kChecksumFile;
  std::error_code absent;
  if (!fs::exists(recorded, absent)) return {};
  if (dataset.unpack != Unpack::nothing) return read_sums(recorded);
  Sums sums;
  for (const DatasetFile& file : dataset.files) sums[file.name] = file.sha256;
  return sums;
}

/// \returns false if the download was stopped.
bool bring(const DatasetFile& file, const fs::path& folder, const FetchOptions& options) {
  const fs::path to = folder / file.name;
  if (holds(to, file.sha256)) return true;
  core::remove_file(to);
  if (options.on_file) options.on_file(file);
  return download(file, to, options.download);
}

/// \returns the checksums of the converted files; none if the conversion was stopped.
Sums convert(const KnownDataset& dataset, const fs::path& folder, const FetchOptions& options) {
  const fs::path archive = folder / dataset.files.front().name;
  const std::vector<std::string> names{"train-images-idx4-ubyte", "train-labels-idx1-ubyte",
                                       "t10k-images-idx4-ubyte", "t10k-labels-idx1-ubyte"};
  std::vector<fs::path> parts;
  parts.reserve(std::size(names));
  for (const std::string& name : names) parts.push_back(folder / (name + ".part"));
  const auto discard = [&parts] {
    std::error_code ignored;
    for (const fs::path& part : parts) fs::remove(part, ignored);
  };
  Sums sums;
  try {
    if (!convert_cifar10(archive, dataset, {parts[0], parts[1]}, {parts[2], parts[3]},
                         options.download.stop)) {
      discard();
      return {};
    }
    for (std::size_t i = 0; i < names.size(); ++i) sums[names[i]] = sha256_of(parts[i]);
    for (std::size_t i = 0; i < names.size(); ++i) fs::rename(parts[i], folder / names[i]);
  } catch (...) {
    discard();
    throw;
  }
  return sums;
}

std::vector<std::string> names_of(const Sums& sums) {
  std::vector<std::string> names;
  for (const auto& [name, sha256] : sums) names.push_back(name);
  return names;
}

}  // namespace

Fetched fetch(const KnownDataset& dataset, const FetchOptions& options) {
  const fs::path folder = folder_for(dataset);
  FolderLock lock(folder);
  if (!wait_for(lock, dataset.name, options))
    return {.folder = folder, .files = {}, .stopped = true};

  const Sums here = expected_sums(dataset, folder);
  if (holds_all(folder, here)) {
    // An earlier fetch may have ended before it removed the archive.
    if (dataset.unpack != Unpack::nothing) core::remove_file(folder / dataset.files.front().name);
    return {.folder = folder, .files = names_of(here)};
  }
  if (!here.empty() && options.download.on_note) {
    options.download.on_note(folder.string() + " has changed since it was fetched; mending it");
  }
  core::remove_file(folder / kChecksumFile);

  for (const DatasetFile& file : dataset.files) {
    if (!bring(file, folder, options)) return {.folder = folder, .files = {}, .stopped = true};
  }
  Sums sums;
  if (dataset.unpack == Unpack::nothing) {
    for (const DatasetFile& file : dataset.files) sums[file.name] = file.sha256;
  } else {
    sums = convert(dataset, folder, options);
    if (sums.empty()) return {.folder = folder, .files = {}, .stopped = true};
  }
  core::write_atomically(folder / kChecksumFile, sums_text(sums));
  if (dataset.unpack != Unpack::nothing) core::remove_file(folder / dataset.files.front().name);
  return {.folder = folder, .files = names_of(sums), .downloaded = true};
}

}  // namespace privgrad::tool
