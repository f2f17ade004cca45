// Options for streamed rows: how they are stored on the disk, and how progress is reported.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace privgrad::core {

/// How the rows of data.streaming are stored on the disk: a choice of this process, which does not
/// affect the run.
struct Streaming {
  std::filesystem::path folder;  ///< Empty: the user's own folder.
  /// Whether files are kept for the next run, which a manifest cannot request; otherwise they are
  /// deleted when the process ends.
  bool keeps = false;
  std::function<void(const std::string&)> note;  ///< Called with notes for the user; may be empty.
  /// Called during slow work with the share that is done, 0 to 1; may be empty.
  std::function<void(const std::string& what, double done)> progress;
};

}  // namespace privgrad::core
