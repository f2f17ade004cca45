// The argument `cache` of Python calls, which decides about stored private copies of data.
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
/// reuses, if any, and the notes about copies, whether they are stored or deleted at the end.
/// Threads: the runs of a study may share one object.
class Keeping {
 public:
  /// \param folder  if absent: nothing is stored; "": the user's cache folder.
  /// \throws ConfigError, IoError like core::FeatureCache; ConfigError if no cache folder is known.
  explicit Keeping(const std::optional<std::string>& folder);

  /// \returns null if nothing is stored.
  const core::FeatureCache* features() const { return features_.get(); }

  const std::filesystem::path& folder() const { return folder_; }

  /// Sets whether the manifest stores streamed rows (data.streaming) too.
  void of_streamed_rows(core::Manifest& manifest) const;

  /// Notes for the user, one per line, like those of the command.
  std::vector<std::string> notes() const;
  void note(const std::string& text) const;

 private:
  struct Notes;
  std::shared_ptr<Notes> notes_;
  std::filesystem::path folder_;
  std::unique_ptr<const core::FeatureCache> features_;
};

}  // namespace privgrad::python
