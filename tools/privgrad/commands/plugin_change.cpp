#include "plugin_change.hpp"

#include <fcntl.h>
#include <stdlib.h>  // mkdtemp is not in <cstdlib>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "output.hpp"
#include "privgrad/digest/trusted_path.hpp"
#include "privgrad/error.hpp"
#include "privgrad/host/search_path.hpp"
#include "privgrad/host/sha256.hpp"
#include "privgrad/host/test_record.hpp"
#include "privgrad/trust/files.hpp"

namespace privgrad::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = ".install-";
constexpr const char* kPlugin = "plugin.privgrad.so";
constexpr const char* kReplaced = "replaced.privgrad.so";
// Two files with all claims to names: kNamesInstalled takes effect if kPlugin has left the folder
// (was installed), kNamesRemoved if kPlugin is in the folder (was removed).
constexpr const char* kNamesInstalled = "names.installed";
constexpr const char* kNamesRemoved = "names.removed";

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw IoError(path.string() + ": " + what + ": " + std::generic_category().message(errno));
}

fs::path record_of(const std::string& sha256) { return host::record_places("", sha256).back(); }

bool is_there(const fs::path& file) { return fs::exists(fs::symlink_status(file)); }

/// Removes the test record of a file, unless an installed plugin has the same content.
void drop_record(const fs::path& file) {
  if (!fs::is_regular_file(fs::symlink_status(file))) return;
  const std::string sha256 = host::sha256_of_file(file);
  if (!fs::exists(record_of(sha256))) return;
  const std::vector<fs::path> installed = host::find_plugin_files(host::user_plugin_directory());
  if (std::ranges::any_of(installed, [&](const fs::path& other) {
        return host::sha256_of_file(other) == sha256;
      })) {
    return;
  }
  fs::remove(record_of(sha256));
}

/// Updates claims and records to match the place of the plugin's file, then removes the folder.
void settle_folder(const fs::path& folder) {
  const fs::path names = folder / (is_there(folder / kPlugin) ? kNamesRemoved : kNamesInstalled);
  const fs::path all = host::claims_file(host::user_plugin_directory());
  if (fs::exists(names)) {
    if (fs::is_empty(names)) {
      fs::remove(all);
    } else {
      fs::rename(names, all);
    }
  }
  for (const char* file : {kPlugin, kReplaced}) drop_record(folder / file);
  fs::remove_all(folder);
}

/// Makes the folder if it is missing.
/// \throws PluginError if other users may write to the folder.
void make_own_folder(const fs::path& folder) {
  fs::create_directories(folder);
  try {
    core::resolve_trusted(folder);
  } catch (const PluginError& problem) {
    throw PluginError(folder.string() + ": " + problem.what());
  }
}

}  // namespace

PluginChange::PluginChange() {
  const fs::path plugins = host::user_plugin_directory(), parent = plugins.parent_path();
  ::umask(::umask(0) | S_IWGRP | S_IWOTH);
  make_own_folder(plugins);
  make_own_folder(record_of("any").parent_path());
  if (fs::is_directory(host::claims_file(plugins)))
    throw IoError(host::claims_file(plugins).string() + ": is a folder, expected a file");
  lock_ = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    complain("note", "another call is changing the installed plugins; waiting for its end");
    while (::flock(lock_, LOCK_EX) != 0 && errno == EINTR) continue;
  }
  if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) != 0) fail(parent, "cannot be locked");
  for (const auto& entry : fs::directory_iterator(parent))
    if (entry.path().filename().string().starts_with(kFolder)) settle_folder(entry.path());
  std::string path = (parent / (kFolder + std::string("XXXXXX"))).string();
  if (::mkdtemp(path.data()) == nullptr) fail(parent, "cannot be written");
  staged_ = fs::canonical(path) / kPlugin;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) == 0) child_ = ::fork();
  if (child_ < 0) {
    const int why = errno;
    fs::remove_all(path);
    errno = why;
    fail(parent, "no child process");
  }
  if (child_ > 0) {
    ::close(ends[0]);
    end_ = ends[1];
    return;
  }
  ::setsid();  // signals to the process group of the terminal or the parent do not reach the child
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  ::close(ends[1]);
  char nothing = 0;
  while (::read(ends[0], &nothing, 1) < 0 && errno == EINTR) continue;
  try {
    settle_folder(staged_.parent_path());
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

PluginChange::~PluginChange() { settle(); }

bool PluginChange::settle() noexcept {
  if (child_ < 0) return true;
  ::close(end_);
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) continue;
  child_ = -1;
  ::close(lock_);
  return status == 0;
}

void PluginChange::finish() {
  if (settle()) return;
  throw IoError(staged_.parent_path().string() + ": cannot be removed");
}

void PluginChange::install(const fs::path& target, const std::string& sha256,
                           const std::vector<host::ClaimedName>& names) {
  const fs::path folder = staged_.parent_path();
  if (is_there(target)) fs::copy_file(target, folder / kReplaced);
  core::write_atomically(folder / kNamesInstalled, host::claims_text(names));
  const fs::path record = staged_.string() + ".tested.json";
  if (fs::exists(record))
    fs::rename(record, record_of(sha256));  // otherwise the suite wrote record_of(sha256)
  fs::rename(staged_, target);
}

void PluginChange::remove(const fs::path& installed, const std::vector<host::ClaimedName>& names) {
  core::write_atomically(staged_.parent_path() / kNamesRemoved, host::claims_text(names));
  fs::rename(installed, staged_);
  std::error_code too_long;  // a name that is too long has no record
  fs::remove(installed.string() + ".tested.json", too_long);
}

}  // namespace privgrad::tool
