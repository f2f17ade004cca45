// The argument `cache` of Python calls, which decides whether private copies of data are stored.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::python {

/// The counterpart of the command's --cache: the private copies of data that a call stores and
/// reuses, if any, and the notes about these copies, and about copies that are deleted at the end.
/// Threads: the runs of a study may share one object.
class Keeping {
 public:
  /// \param folder  if absent: nothing is stored; "": the user's cache folder.
  /// \throws ConfigError, IoError like core::FeatureCache; ConfigError if no cache folder is known.
  explicit Keeping(const std::optional<std::string>& folder);

  /// \returns null if nothing is stored.
  const core::FeatureCache* features() const { return features_.get(); }

  const std::filesystem::path& folder() const { return folder_; }

  /// Sets whether streamed rows (data.streaming) of the manifest are stored, too.
  void of_streamed_rows(core::Manifest& manifest) const;

  /// Notes for the user, one per line, like the command's notes.
  std::vector<std::string> notes() const;
  void note(const std::string& text) const;

 private:
  struct Notes;
  std::shared_ptr<Notes> notes_;
  std::filesystem::path folder_;
  std::unique_ptr<const core::FeatureCache> features_;
};

}  // namespace privgrad::python
