#include "privgrad/data/private_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using core::Descriptor;
using core::PrivateFolder;
namespace fs = std::filesystem;

namespace {

unsigned mode_of(const fs::path& place) {
  struct stat facts {};
  REQUIRE(::stat(place.c_str(), &facts) == 0);
  return facts.st_mode & 0777u;
}

}  // namespace

TEST_CASE("a folder for private copies is open to its owner only", "[folder][privacy]") {
  const TempDir dir;
  const fs::path place = dir.path() / "a" / "b";
  CHECK(PrivateFolder(place / "").path() == place);  // the end does not matter
  CHECK(mode_of(place) == 0700);
  CHECK_NOTHROW(PrivateFolder(place));
  for (const unsigned mode : {0750u, 0701u, 0770u, 0704u}) {
    REQUIRE(::chmod(place.c_str(), mode) == 0);
    CHECK_THROWS_AS(PrivateFolder(place), ConfigError);
    CHECK_THROWS_AS(PrivateFolder::open(place), ConfigError);
  }
}

TEST_CASE("a link or a file is no folder for private copies", "[folder][privacy]") {
  const TempDir dir;
  const PrivateFolder real(dir.path() / "real");
  fs::create_directory_symlink(dir.path() / "real", dir.path() / "link");
  write_file(dir.path() / "file", "x");
  CHECK_THROWS_AS(PrivateFolder(dir.path() / "link"), IoError);
  CHECK_THROWS_AS(PrivateFolder(dir.path() / "file"), IoError);
  CHECK_FALSE(PrivateFolder::open(dir.path() / "missing"));
  CHECK(PrivateFolder::open(dir.path() / "real"));
}

TEST_CASE("bytes are read whole or not at all", "[folder]") {
  const TempDir dir;
  write_file(dir.path() / "file", "0123456789");
  const Descriptor file(::open((dir.path() / "file").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(file);
  std::string four(4, ' ');
  CHECK(core::read_all_at(file.get(), 6, four));
  CHECK(four == "6789");
  CHECK_FALSE(core::read_all_at(file.get(), 7, four));
  CHECK(core::read_all(file.get(), four));
  CHECK(core::read_all(file.get(), four));
  CHECK(four == "4567");
  CHECK_FALSE(core::read_all(file.get(), four));
  CHECK_FALSE(core::write_all(-1, "x"));
}

TEST_CASE("sizes are said in bytes below a million, and in MB from there", "[folder]") {
  CHECK(core::size_words(999'999) == "999999 bytes");
  CHECK(core::size_words(1'000'000) == "1 MB");
  CHECK(core::size_words(6'200'999'999) == "6200 MB");
}
