// Rows in a file that is mapped into memory: the runs have the same bits as with rows in memory,
// and incomplete files are never used.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <thread>

#include "left_files.hpp"
#include "npy_file.hpp"
#include "privgrad/data/data_commitment.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/data/feature_cache.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/plan/read_data.hpp"
#include "privgrad/plan/setting.hpp"
#include "test_components.hpp"
#include "token_rows.hpp"
#include "train.hpp"

using namespace privgrad;
namespace fs = std::filesystem;

namespace {

constexpr const char* kLogistic = R"(privgrad: 1
name: streamed
seed: 7
data:
  kind: csv
  train: table.csv
  target: label
  classes: 2
  columns: [{name: "*", type: number, fill: 0}]
  split: {test: 0.25}
  test_is_public: true
model: {kind: linear, loss: cross_entropy}
sampler: {kind: poisson, sample_rate: 0.2}
optimizer: sgd
schedules: {noise_multiplier: 1.5, clip_norm: 1, learning_rate: 0.1}
privacy: {target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 6
)";

/// Numbers that look random, with exact short decimals.
std::string table(std::size_t rows, std::uint32_t seed = 1) {
  std::string text = "a,b,c,label\n";
  std::uint32_t state = seed;
  for (std::size_t row = 0; row < rows; ++row) {
    for (int column = 0; column < 3; ++column) {
      state = state * 1664525u + 1013904223u;
      text += std::to_string(static_cast<int>(state >> 20) - 2048) + "e-3,";
    }
    text += (state >> 31) != 0 ? "1\n" : "0\n";
  }
  return text;
}

/// A folder of data, a folder for stored rows, and runs that use both.
struct Streamed {
  TempDir home;
  fs::path kept = home.path() / "kept";
  bool keeps = true;
  const Catalog* catalog = &house();
  Notes notes;
  std::vector<double> progress;

  explicit Streamed(std::size_t rows = 500) {
    write_file(home.path() / "table.csv", table(rows));
    write_file(home.path() / "manifest.yaml", kLogistic);
    write_tokens(home.path());
  }

  core::Manifest manifest(bool streams, const Overrides& overrides) {
    // Set in either case, so that files bound to the manifest's text can be compared.
    Overrides all = overrides;
    all.push_back("data.streaming=true");
    core::Manifest loaded = core::load_manifest(home.path() / "manifest.yaml", all, *catalog);
    loaded.streaming.reset();
    if (!streams) return loaded;
    loaded.streaming = {
        .folder = kept,
        .keeps = keeps,
        .note = [this](const std::string& text) { notes.push_back(text); },
        .progress = [this](const std::string&, double done) { progress.push_back(done); }};
    return loaded;
  }

  /// Returns all results of a run that do not depend on when and where it ran, by file name.
  std::map<std::string, std::string> run(bool streams, const Overrides& overrides = {},
                                         int threads = 1) {
    const fs::path directory = home.path() / "run";
    fs::remove_all(directory);
    const core::Manifest loaded = manifest(streams, overrides);
    core::run(core::make_plan(loaded), {.directory = directory,
                                        .lock = "",
                                        .threads = threads,
                                        .date = "2026-01-01",
                                        .on_progress = {}});
    std::map<std::string, std::string> left;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      // summary.json contains the run's duration; the ledger's last line is bound to it.
      if (name != "summary.json") left[name] = read_file(entry.path());
    }
    std::string& ledger = left.at("ledger.jsonl");
    ledger.resize(ledger.rfind('\n', ledger.size() - 2) + 1);
    return left;
  }

  core::RunData rows(bool streams, const Overrides& overrides = {}) {
    const core::Manifest loaded = manifest(streams, overrides);
    const auto setting = core::make_setting(loaded);
    return core::read_data(loaded, *setting);
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    if (!fs::exists(kept)) return all;
    for (const auto& entry : fs::directory_iterator(kept)) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }

  std::size_t noted(const std::string& part) const {
    return static_cast<std::size_t>(
        std::count_if(notes.begin(), notes.end(),
                      [&](const std::string& note) { return note.find(part) != note.npos; }));
  }
};

/// Returns the exact bits of a data set: features, then targets.
std::vector<std::uint32_t> bits(const Dataset& data) {
  std::vector<std::uint32_t> rows(data.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  std::vector<float> features(data.rows() * data.row_size()), targets(data.rows());
  data.gather(rows, features, targets);
  features.insert(features.end(), targets.begin(), targets.end());
  std::vector<std::uint32_t> all(features.size());
  std::memcpy(all.data(), features.data(), features.size() * sizeof(float));
  return all;
}

void check_same_rows(Streamed& streamed, const Overrides& overrides) {
  const core::RunData memory = streamed.rows(false, overrides);
  const core::RunData mapped = streamed.rows(true, overrides);
  CHECK(bits(memory.train) == bits(mapped.train));
  CHECK(bits(memory.test) == bits(mapped.test));
  CHECK(core::commitment_to({}, memory.train) == core::commitment_to({}, mapped.train));
}

void flip_byte(const fs::path& file, std::uint64_t place) {
  std::string content = read_file(file);
  REQUIRE(place < content.size());
  content[place] = static_cast<char>(content[place] ^ 0x10);
  write_file(file, content);
}

const std::string kRowwise =
    "data.transforms=[{kind: standardize, statistic: public, mean: [0.1, 0, 2], std: [0.7, 2, 1]}, "
    "{kind: max_norm, to: 1}]";

const std::string kCounts = "report.class_counts={noise_multiplier: 9, largest_weight: 4}";

/// Only the first number of a row is written; the others are left unchanged.
struct WritesTheFirst : Transform {
  explicit WritesTheFirst(const Params&) {}
  ExampleShape output_shape(const ExampleShape& input) const override { return input; }
  void fit(Dataset&) override {}
  bool is_by_row() const override { return true; }
  void apply_row(const Shape&, std::span<const float> features,
                 std::span<float> out) const override {
    out[0] = features[0];
  }
  Statistic statistic() const override { return Statistic::none; }
};
/// With several rows, it reverses their order.
struct ReversesAtOnce final : WritesTheFirst {
  using WritesTheFirst::WritesTheFirst;
  void apply_rows(const Shape&, std::size_t rows, std::span<const float> features,
                  std::span<float> out) const override {
    const std::size_t width = features.size() / rows;
    for (std::size_t i = 0; i < rows; ++i) out[i * width] = features[(rows - 1 - i) * width];
  }
};

const Catalog& streamed_catalog() {
  static const Catalog catalog = house_with({offer<Transform, WritesTheFirst>("writes_the_first"),
                                             offer<Transform, ReversesAtOnce>("reverses_at_once")});
  return catalog;
}

}  // namespace

TEST_CASE("streaming: what a transform leaves unwritten is 0, and no other row's number") {
  Streamed streamed;
  streamed.catalog = &streamed_catalog();
  check_same_rows(streamed, {"data.transforms=[{kind: max_norm, to: 1}, writes_the_first]"});
}

TEST_CASE("streaming: rows that are given at once are compared with one of them alone") {
  Streamed streamed;
  streamed.catalog = &streamed_catalog();
  CHECK_THROWS_AS(streamed.rows(true, {"data.transforms=[reverses_at_once]"}), PluginError);
  CHECK_THROWS_WITH(
      streamed.rows(false, {"data.transforms=[{kind: max_norm, to: 1}, reverses_at_once]"}),
      ContainsSubstring("data.transforms.1: transform reverses_at_once broke its contract"));
}

TEST_CASE("streaming: a run is the run on the same rows in memory, bit for bit") {
  Streamed streamed;
  const auto overrides = GENERATE(Overrides{}, Overrides{kRowwise}, kEncoder, kDecoder,
                                  Overrides{"model.class_weights=balanced", kCounts});
  const std::size_t files = overrides == Overrides{kRowwise} ? 2 : 1;
  const auto memory = streamed.run(false, overrides);
  check_same(memory, streamed.run(true, overrides));
  CHECK(streamed.noted("kept ") == files);
  SECTION("from the files that the first run left") {
    streamed.notes.clear();
    check_same(memory, streamed.run(true, overrides));
    CHECK(streamed.noted("took ") == files);
    CHECK(streamed.noted("kept ") == 0);
  }
  SECTION("with any number of threads") { check_same(memory, streamed.run(true, overrides, 4)); }
}

TEST_CASE("streaming: a run that scales coordinates is the run in memory, bit for bit") {
  Streamed streamed;
  check_same(streamed.run(false, {"clipping=adaclip"}),
             streamed.run(true, {"clipping=adaclip"}, 3));
}

TEST_CASE("streaming: nothing is kept unless the call says so") {
  Streamed streamed;
  streamed.keeps = false;
  check_same(streamed.run(false, {kRowwise}), streamed.run(true, {kRowwise}));
  CHECK(streamed.files().empty());
  CHECK(streamed.notes.empty());
}

TEST_CASE("streaming: what a run releases and learns is the same, too, and is not kept") {
  Streamed streamed;
  const Overrides overrides{
      "data.transforms=[{kind: max_norm, to: 1}, {kind: standardize, statistic: private, range: "
      "[-1, "
      "1], noise_multiplier: 5}, {kind: max_norm, to: 1}]"};
  const auto memory = streamed.run(false, overrides);
  check_same(memory, streamed.run(true, overrides));
  // The original rows, and the transformed rows before a transform learns from them.
  CHECK(streamed.files().size() == 2);
}

TEST_CASE("streaming: a row that overflows in a transform becomes what it becomes in memory") {
  Streamed streamed;
  // Numbers near 2 overflow float32 when divided by 1e-39, numbers within 0.3 do not.
  const Overrides overrides{
      "data.transforms=[{kind: standardize, statistic: public, mean: [0, 0, 0], std: [1e-39, 1, "
      "1]}, "
      "{kind: max_norm, to: 1}]"};
  check_same_rows(streamed, overrides);
  const auto train = bits(streamed.rows(true, overrides).train);
  const auto nan = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
  CHECK(std::count(train.begin(), train.end(), nan) > 0);
}

TEST_CASE("streaming: rows of every source that has the ability are those in memory") {
  SECTION("csv, of files by a pattern, gzip and test rows of their own") {
    Streamed streamed(40);
    write_file(streamed.home.path() / "more-1.csv", table(30, 2));
    write_file(streamed.home.path() / "more-2.csv", table(20, 3));
    check_same_rows(streamed, {"data.train=more-*.csv"});
    check_same_rows(streamed,
                    {"data={kind: csv, train: table.csv, test: more-1.csv, target: label}"});
  }
  SECTION("csv, more rows than a block holds") {
    Streamed streamed(120000);
    check_same_rows(streamed, {});
    CHECK(streamed.progress.size() > 2);
    CHECK(std::all_of(streamed.progress.begin(), streamed.progress.end(),
                      [](double done) { return done > 0.0 && done <= 1.0; }));
  }
  SECTION("npy, of reals and of bytes") {
    Streamed streamed;
    const Overrides npy{"data={kind: npy, train: {features: x.npy, targets: y.npy}, classes: 2}"};
    const fs::path& home = streamed.home.path();
    write_file(home / "y.npy", array_file<float>("<f4", "4,", {0, 1, 1, 0}));
    write_file(home / "x.npy", array_file<float>("<f4", "4, 2", {1, 2, 3, 4, 5, 6, 7, 8}));
    check_same_rows(streamed, npy);
    write_file(home / "x.npy", array_file<std::uint8_t>("|u1", "4, 2", {1, 2, 3, 4, 5, 6, 7, 255}));
    check_same_rows(streamed, npy);
  }
}

TEST_CASE("streaming: files are private, and listed and removed with the rest of the cache") {
  Streamed streamed;
  streamed.rows(true);
  REQUIRE(streamed.files().size() == 1);
  struct stat facts {};
  REQUIRE(::stat(streamed.files().front().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  REQUIRE(::stat(streamed.kept.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0700);
  const auto listed = core::list_features(streamed.kept);
  REQUIRE(listed.size() == 1);
  CHECK(listed.front().rows == 500);
  CHECK(listed.front().row_size == 3);
  CHECK(core::delete_features(streamed.kept).size() == 1);
  CHECK(!fs::exists(streamed.kept));
  SECTION("a folder that others can look into is refused") {
    fs::create_directory(streamed.kept);
    ::chmod(streamed.kept.c_str(), 0755);
    CHECK_THROWS_WITH(streamed.rows(true), ContainsSubstring("open to them"));
  }
}

TEST_CASE("streaming: data that have changed are read anew, in the place of those before") {
  Streamed streamed;
  const auto before = bits(streamed.rows(true).train);
  SECTION("of another length") {
    write_file(streamed.home.path() / "table.csv", table(400));
    CHECK(streamed.rows(true).train.rows() == streamed.rows(false).train.rows());
  }
  SECTION("of the same length") {
    write_file(streamed.home.path() / "table.csv", table(500, 9));
    CHECK(bits(streamed.rows(true).train) == bits(streamed.rows(false).train));
    CHECK(bits(streamed.rows(true).train) != before);
  }
  SECTION("of the same length, whose time of change was set back") {
    const fs::path file = streamed.home.path() / "table.csv";
    const auto time = fs::last_write_time(file);
    write_file(file, table(500, 9));
    fs::last_write_time(file, time);
    CHECK(bits(streamed.rows(true).train) == bits(streamed.rows(false).train));
  }
  CHECK(streamed.files().size() == 1);
  CHECK(streamed.noted("the data or the program have changed") == 1);
}

TEST_CASE("streaming: other parameters of the source are other rows") {
  Streamed streamed;
  streamed.rows(true);
  check_same_rows(streamed, {"data.split.test=0.5"});
  CHECK(streamed.files().size() == 2);
}

TEST_CASE("streaming: a file that is not whole is noticed, and made anew") {
  Streamed streamed;
  const auto before = bits(streamed.rows(true).train);
  const fs::path file = streamed.files().front();
  const std::uint64_t size = fs::file_size(file);
  SECTION("cut off anywhere") {
    for (const std::uint64_t left : {std::uint64_t{0}, std::uint64_t{10}, std::uint64_t{4096},
                                     std::uint64_t{5000}, size - 1}) {
      fs::resize_file(file, left);
      CHECK(bits(streamed.rows(true).train) == before);
      CHECK(fs::file_size(file) == size);
    }
    CHECK(streamed.noted("are not used") == 5);
  }
  SECTION("longer") {
    fs::resize_file(file, size + 1);
    CHECK(bits(streamed.rows(true).train) == before);
    CHECK(fs::file_size(file) == size);
  }
  SECTION("a byte of it is another one, wherever it stands") {
    // Head, training features, test rows, description.
    for (const std::uint64_t place : {std::uint64_t{3}, std::uint64_t{30}, std::uint64_t{4100},
                                      size / 2, size - 700, size - 20}) {
      INFO(place);
      flip_byte(file, place);
      const core::RunData again = streamed.rows(true);
      CHECK(bits(again.train) == before);
      streamed.notes.clear();
      streamed.rows(true);
      CHECK(streamed.noted("took ") == 1);  // the file is complete again
    }
  }
  SECTION("outputs of transforms, too") {
    const auto expected = bits(streamed.rows(false, {kRowwise}).train);
    CHECK(bits(streamed.rows(true, {kRowwise}).train) == expected);
    for (const fs::path& one : streamed.files()) {
      flip_byte(one, 4100);
      CHECK(bits(streamed.rows(true, {kRowwise}).train) == expected);
    }
    CHECK(streamed.noted("damaged") == 2);
  }
}

TEST_CASE("streaming: rows that are mapped stay while their file is replaced or removed") {
  Streamed streamed;
  const core::RunData data = streamed.rows(true);
  const auto before = bits(data.train);
  write_file(streamed.home.path() / "table.csv", table(100));
  streamed.rows(true);
  core::delete_features(streamed.kept);
  CHECK(bits(data.train) == before);
}

TEST_CASE("streaming: reading that fails leaves nothing behind") {
  Streamed streamed;
  SECTION("a row that does not fit") {
    write_file(streamed.home.path() / "table.csv", table(3000) + "1,2,x,0\n");
    CHECK_THROWS_AS(streamed.rows(true, {"data={kind: csv, train: table.csv, target: label}"}),
                    IoError);
  }
  SECTION("an error of whoever watches") {
    core::Manifest manifest = streamed.manifest(true, {});
    manifest.streaming->progress = [](const std::string&, double) { throw IoError("stop"); };
    CHECK_THROWS_WITH(core::make_setting(manifest), "stop");
  }
  CHECK(streamed.files().empty());
}

TEST_CASE("streaming: threads that want the same rows make one file") {
  Streamed streamed(20000);
  std::array<std::vector<std::uint32_t>, 4> found;
  {
    std::vector<std::jthread> threads;
    for (auto& one : found) {
      threads.emplace_back([&] {
        core::Manifest manifest = streamed.manifest(true, {});
        manifest.streaming->note = {};
        manifest.streaming->progress = {};
        const auto setting = core::make_setting(manifest);
        one = bits(core::read_data(manifest, *setting).train);
      });
    }
  }
  for (const auto& one : found) CHECK(one == found.front());
  CHECK(streamed.files().size() == 1);
}

TEST_CASE("streaming: what needs all rows in memory is refused by name, before any row is read") {
  Streamed streamed;
  const auto refusal = [&](const std::string& override) {
    try {
      streamed.rows(true, {override});
    } catch (const ConfigError& problem) {
      return std::string(problem.what());
    }
    return std::string("nothing is wrong");
  };
  CHECK_THAT(refusal("data.transforms=[{kind: standardize}]"),
             ContainsSubstring("data.transforms.0: standardize learns from all training rows"));
  CHECK_THAT(refusal("data.transforms=[{kind: max_norm, to: 1}, {kind: pca, dimensions: 2}]"),
             ContainsSubstring("data.transforms.1: pca learns from all training rows"));
  CHECK_THAT(refusal("data={kind: synthetic, rows: 50, dimensions: 3}"),
             ContainsSubstring("data: synthetic returns all rows at once"));
}

TEST_CASE("rows that are lent are those of a data set that holds them") {
  const std::vector<float> features{1, 2, 3, 4, 5, 6};
  const std::vector<float> targets{0, 1, 1};
  const auto owner = std::make_shared<int>(0);
  Dataset held({{2}, 2}, features, targets);
  Dataset lent({{2}, 2}, LentRows{.features = std::span<const float>(features),
                                  .scale = 1.0f,
                                  .targets = targets,
                                  .owner = owner});
  CHECK(bits(held) == bits(lent));
  CHECK(owner.use_count() == 3);
  const Dataset copy = lent;
  lent.replace_features({1}, {7, 8, 9});
  held.replace_features({1}, {7, 8, 9});
  CHECK(bits(held) == bits(lent));
  CHECK(copy.row_size() == 2);
  CHECK(copy.targets().data() == targets.data());
  CHECK_THROWS_AS(lent.replace_features({2}, {7, 8, 9}), IoError);
  CHECK_THROWS_AS(lent.replace_features({1}, {7, 8, NAN}), IoError);
  CHECK(bits(held) == bits(lent));
  const auto make = [&](const std::vector<float>& own_targets) {
    Dataset data({{2}, 2}, LentRows{.features = std::span<const float>(features),
                                    .scale = 1.0f,
                                    .targets = own_targets,
                                    .owner = owner});
  };
  CHECK_THROWS_AS(make({0, 1}), IoError);
  CHECK_THROWS_AS(make({0, 1, 2}), IoError);
}
