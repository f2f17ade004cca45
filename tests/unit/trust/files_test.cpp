#include "privgrad/trust/files.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
namespace fs = std::filesystem;

namespace {

// The disk operations of this thread, if a test records them.
thread_local std::vector<std::string>* disk_log = nullptr;

}  // namespace

/// The test's own functions, which replace those of the C library.
extern "C" int fsync(int descriptor) {
  struct stat info {};
  if (disk_log != nullptr && ::fstat(descriptor, &info) == 0) {
    disk_log->push_back(S_ISDIR(info.st_mode)
                            ? "the folder is flushed"
                            : std::to_string(info.st_size) + " bytes are flushed");
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (disk_log != nullptr) disk_log->push_back("the name is given");
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

TEST_CASE("a file is on the disk before it has its name, which then is", "[files]") {
  const TempDir dir;
  std::vector<std::string> log;
  disk_log = &log;
  core::write_atomically(dir.path() / "summary.json", "new text");
  disk_log = nullptr;
  CHECK(log == std::vector<std::string>{"8 bytes are flushed", "the name is given",
                                        "the folder is flushed"});
}

TEST_CASE("a file is replaced as a whole or not at all", "[files]") {
  const TempDir dir;
  const fs::path file = dir.path() / "summary.json";
  core::write_atomically(file, "old");
  core::write_atomically(file, "new");
  CHECK(read_file(file) == "new");
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator{}) == 1);
  CHECK_THROWS_AS(core::write_atomically(dir.path() / "absent" / "x", "text"), IoError);
}

/// A limit on the size of files simulates the full disk: write() fails beyond it.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_CASE("a full disk leaves the old file and no half-written one", "[files]") {
  const TempDir dir;
  const fs::path file = dir.path() / "model";
  core::write_atomically(file, "old");
  {
    const FullDisk full(4096);
    CHECK_THROWS_AS(core::write_atomically(file, std::string(100'000, 'x')), IoError);
  }
  CHECK(read_file(file) == "old");
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator{}) == 1);
}

TEST_CASE("a full disk leaves no half line at the end of an appended file", "[files]") {
  const TempDir dir;
  core::AppendOnlyFile file(dir.path() / "ledger");
  file.append("first\n");
  {
    const FullDisk full(4096);
    CHECK_THROWS_AS(file.append(std::string(100'000, 'x')), IoError);
  }
  CHECK(read_file(dir.path() / "ledger") == "first\n");
  file.append("second\n");
  CHECK(read_file(dir.path() / "ledger") == "first\nsecond\n");
}

TEST_CASE("a run never writes into what is there", "[files]") {
  const TempDir dir;
  core::make_run_directory(dir.path() / "a" / "b");
  core::make_run_directory(dir.path() / "a" / "b");  // an empty directory is accepted
  write_file(dir.path() / "a" / "b" / "x", "");
  CHECK_THROWS_WITH(core::make_run_directory(dir.path() / "a" / "b"),
                    ContainsSubstring("not empty"));
  CHECK_THROWS_WITH(core::make_run_directory(dir.path() / "a" / "b" / "x"),
                    ContainsSubstring("not a directory"));
}

TEST_CASE("a file with fewer bytes than its checkpoint says is not taken up", "[files][privacy]") {
  const TempDir dir;
  const fs::path file = dir.path() / "file";
  write_file(file, "one\ntwo\n");
  CHECK(core::AppendOnlyFile(file, 4).ahead() == "two\n");
  CHECK(core::AppendOnlyFile(file, 8).ahead().empty());
  CHECK_THROWS_WITH(core::AppendOnlyFile(file, 9), ContainsSubstring("has 8 bytes, and had 9"));
}
