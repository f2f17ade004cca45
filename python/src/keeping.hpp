// The argument `cache` of Python calls: which private copies of data are kept, and where.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "privgrad/data/feature_cache.hpp"
#include "privgrad/manifest/manifest.hpp"

namespace privgrad::python {

/// The counterpart of the command's --cache: the private copies of data that a call keeps and
/// reuses, if any; and the notes about copies, whether kept or gone with the process.
/// Threads: the runs of a study may share one.
class Keeping {
 public:
  /// \param folder  nothing: nothing is kept; "": the user's own folder for such files.
  /// \throws ConfigError, IoError as core::FeatureCache; ConfigError if no such folder is known.
  explicit Keeping(const std::optional<std::string>& folder);

  /// \returns null where nothing is kept.
  const core::FeatureCache* features() const { return features_.get(); }

  const std::filesystem::path& folder() const { return folder_; }

  /// Makes the manifest keep streamed rows (data.streaming) as well, or not.
  void of_streamed_rows(core::Manifest& manifest) const;

  /// Notes for the user, a line each, like the command's.
  std::vector<std::string> notes() const;
  void note(const std::string& text) const;

 private:
  struct Notes;
  std::shared_ptr<Notes> notes_;
  std::filesystem::path folder_;
  std::unique_ptr<const core::FeatureCache> features_;
};

}  // namespace privgrad::python
