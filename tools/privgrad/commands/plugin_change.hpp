// Atomic changes of the plugins that are installed for the user.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "privgrad/host/claimed_names.hpp"

namespace privgrad::tool {

/// One change of the plugins that are installed for the user. While it exists, other calls wait.
///
/// A single rename of the plugin's file installs or removes the plugin. Its claims to names and its
/// test record follow from the place of the file after the rename. A child process updates both
/// when this process ends, even if a signal kills this process. If the child process is killed as
/// well, the next change updates them.
class PluginChange {
 public:
  /// \throws IoError if the folders cannot be made; PluginError if other users may write to them.
  PluginChange();
  /// Does the same as finish(), but throws nothing.
  ~PluginChange();
  PluginChange(const PluginChange&) = delete;
  PluginChange& operator=(const PluginChange&) = delete;

  /// Returns the path for the file to install; the record of its test goes beside it. No command
  /// looks for plugins in the path's folder, which is on the file system of the installed plugins.
  const std::filesystem::path& staged() const { return staged_; }

  /// Installs staged() as `target`.
  /// \param sha256  the hash of staged().
  /// \param names  all claims to names after the change.
  void install(const std::filesystem::path& target, const std::string& sha256,
               const std::vector<host::ClaimedName>& names);

  /// Removes an installed file.
  /// \param names  all claims to names after the change.
  void remove(const std::filesystem::path& installed, const std::vector<host::ClaimedName>& names);

  /// Waits until claims and records are updated and all temporary files are removed.
  /// \throws IoError if that fails.
  void finish();

 private:
  bool settle() noexcept;

  std::filesystem::path staged_;
  int lock_ = -1;
  int end_ = -1;  ///< The write end of a pipe whose closing tells the child process to begin.
  pid_t child_ = -1;
};

}  // namespace privgrad::tool
