// The default places for a run's directory and for the state that must stay outside of it.
#pragma once

#include <filesystem>
#include <string_view>

namespace privgrad::api {

/// The default directory of a run: runs/NAME-yyyymmddThhmmssZ, with the suffix "-2", "-3", ... if
/// that name is taken.
///
/// The constructor creates the directory, so runs that start in the same second never share one.
/// The destructor removes the directory if it is still empty.
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

/// The default of --state, for files that must not be in run directories: a folder in the user's
/// state directory (XDG Base Directory Specification); "" if the user has none.
std::filesystem::path default_state_directory();

}  // namespace privgrad::api
