#include "privgrad/data/row_file.hpp"

#include <sys/stat.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;
using core::PrivateFolder;
using core::RowFile;
using core::RowFileWriter;
using core::RowPlace;

namespace {

const RowPlace kPlace{.name = std::string(64, 'a'), .key = "{\"rows\":\"of a test\"}"};

/// Three training rows and a test row, of two features each.
struct KeptRows {
  TempDir dir;
  PrivateFolder folder{dir.path() / "rows"};
  std::vector<float> features{1.0f, -0.0f, 2.5f, 1e-40f, 3.0f, 4.0f}, targets{0.0f, 1.0f, 1.0f};
  std::vector<float> test_features{9.0f, 8.0f}, test_target{1.0f};

  std::shared_ptr<const RowFile> write() const {
    RowFileWriter writer(folder, kPlace);
    writer.add({.features = std::span(features).first(2), .targets = std::span(targets).first(1)});
    writer.add({.split = Split::test,
                .features = std::span<const float>(test_features),
                .targets = test_target});
    writer.add(
        {.features = std::span(features).subspan(2), .targets = std::span(targets).subspan(1)});
    DataInfo info;
    info.shape = {{2}, 2};
    info.train_rows = 3;
    info.test_rows = 1;
    info.has_test_split = true;
    info.unaccounted = {"number of classes (classes)"};
    info.first_rows_only = info.rows_chosen_by_value = true;
    return writer.finish(info);
  }
  std::shared_ptr<const RowFile> find(const std::string& key = kPlace.key) const {
    std::string why;
    return RowFile::find(folder, {kPlace.name, key}, why);
  }
  std::filesystem::path file() const {
    return folder.path() / (kPlace.name + std::string(core::kRowFileSuffix));
  }
};

std::vector<float> numbers_of(const RowFile& file, Split split) {
  const Dataset data = file.rows(split, file.info().shape);
  std::vector<std::uint32_t> rows(data.rows());
  for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
  std::vector<float> features(rows.size() * data.row_size()), targets(rows.size());
  data.gather(rows, features, targets);
  features.insert(features.end(), targets.begin(), targets.end());
  return features;
}

}  // namespace

TEST_CASE("rows of a file are those that were written, in their order", "[rows]") {
  const KeptRows kept;
  kept.write();
  const auto found = kept.find();
  REQUIRE(found);
  CHECK(numbers_of(*found, Split::train) ==
        std::vector<float>{1.0f, -0.0f, 2.5f, 1e-40f, 3.0f, 4.0f, 0.0f, 1.0f, 1.0f});
  CHECK(numbers_of(*found, Split::test) == std::vector<float>{9.0f, 8.0f, 1.0f});
  CHECK(found->info().has_test_split);
  CHECK(found->info().unaccounted == std::vector<std::string>{"number of classes (classes)"});
  CHECK(found->info().first_rows_only);
  CHECK(found->info().rows_chosen_by_value);
  CHECK(found->is_whole(Split::train, {}));
  CHECK(found->is_whole(Split::test, {}));
}

TEST_CASE("bytes mean their value times the scale", "[rows]") {
  const KeptRows kept;
  RowFileWriter writer(kept.folder, kPlace);
  const std::vector<std::uint8_t> bytes{0, 128, 255, 1};
  writer.add({.features = std::span<const std::uint8_t>(bytes),
              .scale = 0.5f,
              .targets = std::span(kept.targets).first(2)});
  DataInfo info;
  info.shape = {{2}, 2};
  info.train_rows = 2;
  CHECK(numbers_of(*writer.finish(info), Split::train) ==
        std::vector<float>{0.0f, 64.0f, 127.5f, 0.5f, 0.0f, 1.0f});
}

TEST_CASE("a file of rows is for its key and its owner only", "[rows][privacy]") {
  const KeptRows kept;
  CHECK_FALSE(kept.find());
  kept.write();
  CHECK_FALSE(kept.find("{\"rows\":\"of another test\"}"));
  struct stat facts {};
  REQUIRE(::stat(kept.file().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777u) == 0600u);
}

TEST_CASE("a damaged file is not found, not whole, or holds the same rows", "[rows][privacy]") {
  const KeptRows kept;
  kept.write();
  const std::string whole = read_file(kept.file());
  std::size_t refused = 0, broken = 0;
  for (std::size_t at = 0; at < whole.size(); at += at < 320 || at >= 4096 ? 1 : 64) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    std::filesystem::remove(kept.file());  // a mapped file is never written to
    write_file(kept.file(), changed);
    const auto found = kept.find();
    if (!found) {
      ++refused;
    } else if (!found->is_whole(Split::train, {}) || !found->is_whole(Split::test, {})) {
      ++broken;
    } else {
      CHECK(numbers_of(*found, Split::train).size() == 9);
      CHECK(numbers_of(*found, Split::train)[4] == 3.0f);
      CHECK(numbers_of(*found, Split::test)[0] == 9.0f);
    }
  }
  CHECK(broken == 48);  // 9 training and 3 test numbers, of 4 bytes each
  CHECK(refused > 500);
  for (const std::string& other : {whole.substr(0, whole.size() - 1), whole + "x", std::string()}) {
    std::filesystem::remove(kept.file());
    write_file(kept.file(), other);
    CHECK_FALSE(kept.find());
  }
}

TEST_CASE("a file whose writing ends early has no name, and blocks must be alike", "[rows]") {
  const KeptRows kept;
  {
    RowFileWriter writer(kept.folder, kPlace);
    writer.add({.features = std::span<const float>(kept.features), .targets = kept.targets});
    const std::vector<std::uint8_t> bytes{1, 2};
    CHECK_THROWS_AS(writer.add({.features = std::span<const std::uint8_t>(bytes),
                                .targets = std::span(kept.targets).first(1)}),
                    PluginError);
    CHECK_THROWS_AS(writer.add({.features = std::span(kept.features).first(3),
                                .targets = std::span(kept.targets).first(1)}),
                    PluginError);
  }
  CHECK_FALSE(kept.find());
  CHECK(std::filesystem::is_empty(kept.folder.path()));
}
