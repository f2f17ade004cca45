// A private folder that stores outputs of frozen layers and costly transforms for later runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace privgrad::core {

class PrivateFolder;

/// Everything that determines features, and the number of features per example.
struct FeatureKey {
  std::string text;  ///< On one line: JSON that names data, layers, weights and code by hashes.
  std::string what;  ///< For notes: "outputs of frozen layers"; not in the file.
  std::uint64_t rows = 0;
  std::size_t row_size = 0;  ///< Numbers per example.
};

/// Keeps the outputs of frozen layers and of costly transforms (Transform::is_costly()) after a
/// run, in one file for each split of the data and each set of layers or transform. The next run
/// with the same data and layers or transform reads the outputs instead of computing them.
///
/// Privacy: features are computed from private rows, and are as private as the rows. So they are
/// stored only at the user's request, in a folder that only the user can read (0700, files 0600),
/// outside the output that may be shared. Stored features are used only if they equal the features
/// that would be computed, bit for bit: the file's name and head identify everything that
/// determines the features, and a hash covers every byte.
///
/// A file KEY.features, where KEY is the SHA-256 of the key's text:
///
///   "privgrad features 1\n", the key's text, "\n", the numbers (float32, little-endian, row after
///   row), and the SHA-256 of all preceding bytes, 64 hex digits.
///
/// A file is written under a temporary name and renamed, so several processes may store the same
/// features at the same time. Threads: const functions may run concurrently.
class FeatureCache {
 public:
  /// \param folder  created if it is missing.
  /// \param note  receives lines for the user: each line names the features and the file that was
  ///   written or read, or why no file was used; may be empty.
  /// \throws as PrivateFolder
  FeatureCache(const std::filesystem::path& folder, std::function<void(const std::string&)> note);
  FeatureCache(const FeatureCache&) = delete;
  FeatureCache& operator=(const FeatureCache&) = delete;
  ~FeatureCache();

  /// \returns the features stored for the key; nothing if their file is missing or damaged.
  std::optional<std::vector<float>> find(const FeatureKey& key) const;

  /// Stores features. A failure, for example on a full disk, is noted, and leaves no file
  /// behind.
  /// \param features  the features, [rows, row_size].
  void keep(const FeatureKey& key, std::span<const float> features) const;

  void note(const std::string& text) const;

 private:
  std::unique_ptr<PrivateFolder> folder_;
  std::function<void(const std::string&)> note_;
};

/// One file of a cache: features, or the rows of a streamed data set. Has no name and no key: both
/// are hashes of private rows, which could confirm guesses about rows.
struct KeptFeatures {
  std::uint64_t bytes = 0;
  std::time_t used = 0;  ///< When the file was last written or read.
  /// The number of rows according to the file's head; 0 if the head is unreadable, or if a killed
  /// process left the file.
  std::uint64_t rows = 0;
  std::size_t row_size = 0;
};

/// \returns the default folder of --cache and data.streaming, for private copies of data:
///   $XDG_CACHE_HOME/privgrad/features, or otherwise ~/.cache/privgrad/features; empty if neither
///   is known.
std::filesystem::path user_feature_folder();

/// \returns the files of a cache, most recently used first; no files if there is no such folder.
/// \throws as FeatureCache
std::vector<KeptFeatures> list_features(const std::filesystem::path& folder);

/// Removes all files of a cache, and the folder if nothing else is in it. The files are unlinked,
/// but their bytes are not wiped from the disk.
/// \returns the files that were removed.
/// \throws as FeatureCache; IoError if a file cannot be removed.
std::vector<KeptFeatures> delete_features(const std::filesystem::path& folder);

}  // namespace privgrad::core
