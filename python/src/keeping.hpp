#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::python {

/// What --cache is to the command: the private copies of data that a call keeps, and takes, or none;
/// and what is said of copies, kept or gone with the process.
/// Threads: the runs of a study may share one.
class Keeping {
 public:
  /// \param folder  nothing: nothing is kept; "": the user's own place for such files.
  /// \throws ConfigError, IoError as core::FeatureCache; ConfigError if no such place is known.
  explicit Keeping(const std::optional<std::string>& folder);

  /// \returns null where nothing is kept.
  const core::FeatureCache* features() const { return features_.get(); }

  const std::filesystem::path& folder() const { return folder_; }

  /// Has rows that are streamed (data.streaming) kept as well, or not.
  void of_streamed_rows(core::Manifest& manifest) const;

  /// What a user should know, a line each, as the command's notes.
  std::vector<std::string> notes() const;
  void note(const std::string& text) const;

 private:
  struct Notes;
  std::shared_ptr<Notes> notes_;
  std::filesystem::path folder_;
  std::unique_ptr<const core::FeatureCache> features_;
};

}  // namespace privgrad::python
