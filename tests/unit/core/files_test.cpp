#include "privgrad/core/files.hpp"

#include <sys/resource.h>

#include <csignal>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
namespace fs = std::filesystem;

TEST_CASE("a file is replaced as a whole or not at all", "[files]") {
  const TempDir dir;
  const fs::path file = dir.path() / "summary.json";
  core::write_atomically(file, "old");
  core::write_atomically(file, "new");
  CHECK(read_file(file) == "new");
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator{}) == 1);
  CHECK_THROWS_AS(core::write_atomically(dir.path() / "absent" / "x", "text"), IoError);
}

TEST_CASE("a full disk leaves the old file and no half-written one", "[files]") {
  const TempDir dir;
  const fs::path file = dir.path() / "model";
  core::write_atomically(file, "old");
  // A limit on the size of files stands in for the full disk: write() fails beyond it.
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  CHECK_THROWS_AS(core::write_atomically(file, std::string(100'000, 'x')), IoError);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(read_file(file) == "old");
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator{}) == 1);
}

TEST_CASE("a run never writes into what is there", "[files]") {
  const TempDir dir;
  core::make_run_directory(dir.path() / "a" / "b");
  core::make_run_directory(dir.path() / "a" / "b");  // empty: fine
  write_file(dir.path() / "a" / "b" / "x", "");
  CHECK_THROWS_WITH(core::make_run_directory(dir.path() / "a" / "b"),
                    ContainsSubstring("not empty"));
  CHECK_THROWS_WITH(core::make_run_directory(dir.path() / "a" / "b" / "x"),
                    ContainsSubstring("no directory"));
}
