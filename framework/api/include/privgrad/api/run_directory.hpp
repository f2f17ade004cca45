// The default places for a run's directory and for the state that must stay outside of it.
#pragma once

#include <filesystem>
#include <string_view>

namespace privgrad::api {

/// The directory of a run for which the user named none: runs/NAME-yyyymmddThhmmssZ, followed by
/// "-2", "-3", ... if that is taken.
///
/// It is created at once, so that runs that start in the same second never share one, and removed
/// with this object if nothing was put into it.
class DefaultRunDirectory {
 public:
  /// \throws IoError if it cannot be made.
  explicit DefaultRunDirectory(std::string_view name);
  ~DefaultRunDirectory();
  DefaultRunDirectory(const DefaultRunDirectory&) = delete;
  DefaultRunDirectory& operator=(const DefaultRunDirectory&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  bool made_parent_ = false;
};

/// The place for files that must not lie in run directories, unless --state names another: the
/// user's own directory for such files (XDG Base Directory Specification); "" if there is none.
std::filesystem::path default_state_directory();

}  // namespace privgrad::api
