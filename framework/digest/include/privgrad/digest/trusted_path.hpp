// Checks that only root and the user can change a file or the path to it.
#pragma once

#include <filesystem>

namespace privgrad::core {

/// Follows a path from the root, through every symbolic link, and checks who may change the file,
/// every directory on the way, and every link.
///
/// Accepts directories and files that belong to root or to us, and that nobody else may write: no
/// other user, no access list, and no group except the owner's private group, which has no other
/// members. Directories with the sticky bit, such as /tmp, may be writable: only the owner of an
/// entry can replace it there.
///
/// \returns the path, resolved to one without links, "." and "..".
/// \throws PluginError if the path does not exist or has more than 40 links, or if other users can
///   change it; in the last case, the message names everything that must be changed.
std::filesystem::path resolve_trusted(const std::filesystem::path& path);

}  // namespace privgrad::core
