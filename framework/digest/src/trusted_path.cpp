#include "privgrad/digest/trusted_path.hpp"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

namespace fs = std::filesystem;

using File = std::unique_ptr<FILE, int (*)(FILE*)>;
using Space = std::array<char, 65536>;

/// Whether a group has this name, and lists no member except the user of the same name.
bool is_alone(const struct group& entry, const std::string& name) {
  for (char** member = entry.gr_mem; *member != nullptr; ++member)
    if (name != *member) return false;
  return name == entry.gr_name;
}

/// Whether this user is the only member of a group. Many systems make such a group for each
/// account, with the user's name, and make users' files writable for it (umask 002). Checks only
/// accounts of this machine, because network accounts with this primary group cannot be listed.
bool is_private_group(gid_t group, uid_t user) {
  Space space{};
  std::string name;
  const File accounts(std::fopen("/etc/passwd", "re"), std::fclose);
  const File groups(std::fopen("/etc/group", "re"), std::fclose);
  if (!accounts || !groups) return false;
  struct passwd account {
  }, *one = nullptr;
  int end = 0;
  while ((end = ::fgetpwent_r(accounts.get(), &account, space.data(), space.size(), &one)) == 0) {
    if (one->pw_gid != group) continue;
    if (one->pw_uid != user) return false;
    name = one->pw_name;
  }
  if (end != ENOENT || name.empty()) return false;
  struct group entry {
  }, *found = nullptr;
  // A group number may have several entries.
  while ((end = ::fgetgrent_r(groups.get(), &entry, space.data(), space.size(), &found)) == 0)
    if (found->gr_gid == group && !is_alone(*found, name)) return false;
  if (end != ENOENT) return false;
  return ::getgrgid_r(group, &entry, space.data(), space.size(), &found) == 0 && found != nullptr &&
         is_alone(*found, name);
}

/// Whether a path may have an access list that grants access to other users; if so, the group bits
/// are the list's mask.
bool may_have_access_list(const fs::path& part) {
  for (const char* kind : {"system.posix_acl_access", "system.nfs4_acl", "system.nfs4_acl_xdr"}) {
    if (::lgetxattr(part.c_str(), kind, nullptr, 0) >= 0) return true;
    if (errno != ENODATA && errno != ENOTSUP) return true;
  }
  return false;
}

/// Collects the components of a path that other users can change. A user who can change one of
/// these components can choose the code that runs.
class Suspects {
 public:
  void look_at(const fs::path& part, const struct stat& info) {
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) add(foreign_, part);
    const bool sticky_directory = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX);
    const bool writable =
        (info.st_mode & S_IWOTH) != 0 ||
        ((info.st_mode & S_IWGRP) != 0 &&
         (may_have_access_list(part) || !is_private_group(info.st_gid, info.st_uid)));
    // The mode of a link has no effect: a link can be changed only through its directory, which is
    // checked.
    if (writable && !sticky_directory && !S_ISLNK(info.st_mode)) add(writable_, part);
  }

  void throw_if_any() const {
    std::string why;
    if (!writable_.empty()) {
      why = "others may write to it or to a directory above it; run: chmod go-w" + list(writable_);
    }
    if (!foreign_.empty()) {
      why += (why.empty() ? "" : "; and ") + std::string("it or a directory above it belongs to") +
             " neither root nor you (uid " + std::to_string(::geteuid()) +
             "); have it owned by one of them:" + list(foreign_);
    }
    if (!why.empty()) throw PluginError("refused: " + why);
  }

 private:
  static void add(std::vector<fs::path>& to, const fs::path& part) {
    if (std::ranges::find(to, part) == to.end()) to.push_back(part);
  }
  static std::string list(const std::vector<fs::path>& parts) {
    std::string text;
    for (const fs::path& part : parts) text += " " + part.string();
    return text;
  }

  std::vector<fs::path> writable_;
  std::vector<fs::path> foreign_;
};

}  // namespace

fs::path resolve_trusted(const fs::path& path) {
  constexpr int kMostLinks = 40;  // the same as the kernel's limit
  Suspects suspects;
  fs::path resolved = "/";
  std::deque<fs::path> rest;
  const auto push_front = [&](const fs::path& more) {
    rest.insert(rest.begin(), more.begin(), more.end());
  };
  push_front(fs::absolute(path));
  for (int links = 0; !rest.empty();) {
    const fs::path name = rest.front();
    rest.pop_front();
    if (name == "..") {
      resolved = resolved.parent_path();
      continue;
    }
    if (name.empty() || name == ".") continue;
    const fs::path part = name.is_absolute() ? name : resolved / name;
    struct stat info {};
    if (::lstat(part.c_str(), &info) != 0) {
      throw PluginError((part == path ? "" : part.string() + ": ") + std::strerror(errno));
    }
    suspects.look_at(part, info);
    if (!S_ISLNK(info.st_mode)) {
      resolved = part;
      continue;
    }
    if (++links > kMostLinks) throw PluginError("too many symbolic links");
    const fs::path target = fs::read_symlink(part);
    if (target.is_absolute()) resolved = "/";
    push_front(target);
  }
  suspects.throw_if_any();
  return resolved;
}

}  // namespace privgrad::core
