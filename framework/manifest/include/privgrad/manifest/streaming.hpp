// How streamed rows are kept on the disk, and whom to tell about progress.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace privgrad::core {

/// The way in which the rows of data.streaming are kept on the disk: a choice of this process,
/// which does not change the run.
struct Streaming {
  std::filesystem::path folder;  ///< Empty: the user's own.
  /// Whether files are kept for the next run, which no manifest can ask for; else they are gone with
  /// the process.
  bool keeps = false;
  std::function<void(const std::string&)> note;  ///< Told what the user should know; may be empty.
  /// Told what takes long, and how much of it is done, 0 to 1; may be empty.
  std::function<void(const std::string& what, double done)> progress;
};

}  // namespace privgrad::core
