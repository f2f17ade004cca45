#include "privgrad/data/feature_cache.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support.hpp"

using namespace privgrad;
using core::FeatureCache;
using core::FeatureKey;
namespace fs = std::filesystem;

namespace {

const FeatureKey kKey{
    .text = R"({"layers":1,"row_size":3,"rows":2})", .what = "outputs", .rows = 2, .row_size = 3};
const std::vector<float> kFeatures{1.0f, -0.0f, 2.5f, 3.0f, 1e-40f, 5.0f};

struct Kept {
  TempDir dir;
  fs::path folder = dir.path() / "features";
  FeatureCache cache{folder, {}};

  Kept() { cache.keep(kKey, kFeatures); }
  fs::path file() const { return fs::directory_iterator(folder)->path(); }
};

}  // namespace

TEST_CASE("features are found as they were kept, by their key only", "[cache]") {
  const Kept kept;
  CHECK(kept.cache.find(kKey) == kFeatures);
  FeatureKey other = kKey;
  other.text = "{\"layers\":2}";
  CHECK_FALSE(kept.cache.find(other));
  other = kKey;
  other.rows = 3;
  CHECK_FALSE(kept.cache.find(other));
}

TEST_CASE("features of another key, or behind a link, are not used", "[cache][privacy]") {
  const Kept kept;
  const fs::path file = kept.file();
  FeatureKey other = kKey;
  other.text = R"({"layers":2,"row_size":3,"rows":2})";
  const std::string before = read_file(file);
  fs::remove(file);
  kept.cache.keep(other, kFeatures);
  write_file(kept.file(), before);
  CHECK_FALSE(kept.cache.find(other));

  fs::remove(kept.file());
  write_file(kept.dir.path() / "elsewhere", before);
  fs::create_symlink(kept.dir.path() / "elsewhere", file);
  CHECK_FALSE(kept.cache.find(kKey));
}

TEST_CASE("kept features can be read by their owner only", "[cache][privacy]") {
  const Kept kept;
  struct stat facts {};
  REQUIRE(::stat(kept.file().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777u) == 0600u);
  REQUIRE(::stat(kept.folder.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777u) == 0700u);
}

TEST_CASE("a file that lost, gained or changed a byte is not used", "[cache][privacy]") {
  const Kept kept;
  const std::string whole = read_file(kept.file());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    write_file(kept.file(), changed);
    CHECK_FALSE(kept.cache.find(kKey));
  }
  write_file(kept.file(), whole.substr(0, whole.size() - 1));
  CHECK_FALSE(kept.cache.find(kKey));
  write_file(kept.file(), whole + "x");
  CHECK_FALSE(kept.cache.find(kKey));
  write_file(kept.file(), whole);
  CHECK(kept.cache.find(kKey) == kFeatures);
}

TEST_CASE("kept files are listed without their keys, and deleted with their folder", "[cache]") {
  const Kept kept;
  const fs::path other = kept.folder / "other";
  write_file(other, "not features");
  CHECK(core::delete_features(kept.folder).size() == 1);
  CHECK(read_file(other) == "not features");
  fs::remove(other);
  kept.cache.keep(kKey, kFeatures);
  const auto files = core::list_features(kept.folder);
  REQUIRE(files.size() == 1);
  CHECK(files.front().rows == 2);
  CHECK(files.front().row_size == 3);
  CHECK(files.front().bytes == fs::file_size(kept.file()));
  CHECK(core::delete_features(kept.folder).size() == 1);
  CHECK_FALSE(fs::exists(kept.folder));
  CHECK(core::list_features(kept.folder).empty());
}
