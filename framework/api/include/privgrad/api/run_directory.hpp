// The default places for a run's directory and for the state that must stay outside of it.
#pragma once

#include <filesystem>
#include <string_view>

namespace privgrad::api {

/// The default directory of a run: runs/NAME-yyyymmddThhmmssZ, followed by "-2", "-3", ... if that
/// exists.
///
/// It is created at once, so that runs that start in the same second never share one, and removed
/// with this object if it is still empty.
class DefaultRunDirectory {
 public:
  /// \throws IoError if the directory cannot be made.
  explicit DefaultRunDirectory(std::string_view name);
  ~DefaultRunDirectory();
  DefaultRunDirectory(const DefaultRunDirectory&) = delete;
  DefaultRunDirectory& operator=(const DefaultRunDirectory&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  bool made_parent_ = false;
};

/// The default place for files that must not be in run directories, without --state: the user's
/// directory for such files (XDG Base Directory Specification); "" if there is none.
std::filesystem::path default_state_directory();

}  // namespace privgrad::api
