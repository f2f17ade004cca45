#include "privgrad/host/trust.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "privgrad/error.hpp"

namespace privgrad::host {
namespace {

namespace fs = std::filesystem;

/// The components of a path that others can change: anyone who can change one chooses our code.
class Suspects {
 public:
  void look_at(const fs::path& part, const struct stat& info) {
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) add(foreign_, part);
    const bool sticky_directory = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX);
    const bool writable = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    // The mode of a link means nothing; a link is changed through its directory, which is checked.
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
    if (std::find(to.begin(), to.end(), part) == to.end()) to.push_back(part);
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
  constexpr int kMostLinks = 40;  // as the kernel's own limit
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

}  // namespace privgrad::host
