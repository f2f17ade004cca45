#pragma once

#include <filesystem>
#include <string_view>

namespace privgrad::calls {

/// The directory of a run for which the user named none: runs/NAME-yyyymmddThhmmssZ, with "-2",
/// "-3", ... behind it where that is taken.
///
/// It is made at once, so that runs that start in the same second cannot meet in one, and taken
/// away with this object if nothing was put into it.
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

/// Where what must not lie in run directories goes unless --state says otherwise: the user's own place
/// for such files (XDG Base Directory Specification); "" if there is none.
std::filesystem::path default_state_directory();

}  // namespace privgrad::calls
