// Outputs of frozen layers, stored for the next run: the same bits, or nothing.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <thread>

#include "left_files.hpp"
#include "privgrad/data/feature_cache.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/federated/any_run.hpp"
#include "privgrad/plan/read_data.hpp"
#include "tensor_file.hpp"
#include "train.hpp"

using namespace privgrad;
namespace fs = std::filesystem;

namespace {

/// A last layer after a frozen one, on 60 and 20 examples.
constexpr const char* kHead = R"(privgrad: 1
name: head
seed: 1
data: {kind: synthetic, rows: 60, test_rows: 20, dimensions: 3, test_is_public: true}
model: {kind: mlp, hidden: [4], activation: tanh, loss: cross_entropy,
        weights: {file: base.safetensors, public: true}, train: [last]}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.1}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 2
)";

/// Weights of 3-4-2 units.
std::string weights(float first) {
  std::vector<float> values(12);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + 0.07f * static_cast<float>(i);
  return safetensors_of(
      {{"layers.0.weight", {4, 3}, values}, {"layers.0.bias", {4}, {0.1f, 0.2f, 0.3f, 0.4f}}});
}

/// A folder for features, and runs that use it.
struct Kept {
  TempDir home;
  fs::path folder = home.path() / "features";

  /// Returns all results of a run except its times, by file name.
  std::map<std::string, std::string> run(bool with_cache, Notes& notes,
                                         const std::vector<std::string>& overrides = {},
                                         float first_weight = -0.4f) const {
    // Always the same place, because the resolved manifest names the file of the weights.
    write_file(home.path() / "head.yaml", kHead);
    write_file(home.path() / "base.safetensors", weights(first_weight));
    const fs::path directory = home.path() / "run";
    fs::remove_all(directory);
    std::optional<core::FeatureCache> cache;
    if (with_cache) cache.emplace(folder, [&](const std::string& text) { notes.push_back(text); });
    const core::Manifest manifest =
        core::load_manifest(home.path() / "head.yaml", overrides, house());
    core::run(core::make_plan(manifest), {.directory = directory,
                                          .lock = "",
                                          .date = "2026-01-01",
                                          .on_progress = {},
                                          .features = cache ? &*cache : nullptr});
    std::map<std::string, std::string> left;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      // These contain the run's duration and place; the ledger's last line is bound to them.
      if (name != "summary.json") left[name] = read_file(entry.path());
    }
    std::string& ledger = left.at("ledger.jsonl");
    ledger.resize(ledger.rfind('\n', ledger.size() - 2) + 1);
    return left;
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }
};

const core::FeatureKey kKey{R"({"privgrad":"test","row_size":3,"rows":2})", "outputs of a test", 2,
                            3};
const std::vector<float> kFeatures{1.0f,   -0.0f, 3.5f, std::numeric_limits<float>::quiet_NaN(),
                                   1e-40f, -2.0f};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Returns the file of kKey, made from the format's description and not by the program.
std::string described_file() {
  std::string text = "privgrad features 1\n" + kKey.text + "\n";
  text.append(reinterpret_cast<const char*>(kFeatures.data()), kFeatures.size() * sizeof(float));
  return text + core::sha256_hex(text);
}

}  // namespace

TEST_CASE("a run with kept features leaves what it leaves without them, bit for bit",
          "[features][privacy]") {
  const Kept kept;
  Notes first, second;
  const auto without = kept.run(false, first);
  const auto keeping = kept.run(true, first);
  const auto taking = kept.run(true, second);
  CHECK(count_of(first, "kept the outputs of frozen layers for 60 examples") == 1);
  CHECK(count_of(first, "kept the outputs of frozen layers for 20 examples") == 1);
  CHECK(count_of(second, "took the outputs of frozen layers for 60 examples") == 1);
  CHECK(count_of(second, "took the outputs of frozen layers for 20 examples") == 1);
  CHECK(second.size() == 2);
  REQUIRE(without.contains("model.safetensors"));
  REQUIRE(without.contains("ledger.jsonl"));
  check_same(keeping, without);
  check_same(taking, without);
}

TEST_CASE("a run computes with what was kept, not beside it", "[features]") {
  const Kept kept;
  Notes notes;
  const auto honest = kept.run(true, notes);
  for (const fs::path& file : kept.files()) {
    // Different numbers with a matching hash: a forgery that only the user could make.
    std::string text = read_file(file);
    text.resize(text.size() - 64);
    const float other = 0.25f;
    std::memcpy(text.data() + text.size() - sizeof other, &other, sizeof other);
    write_file(file, text + core::sha256_hex(text));
  }
  CHECK(kept.run(true, notes).at("model.safetensors") != honest.at("model.safetensors"));
}

TEST_CASE("features are kept for the same data, layers and weights alone", "[features][privacy]") {
  const Kept kept;
  Notes notes;
  kept.run(true, notes);
  REQUIRE(kept.files().size() == 2);
  // The training of the head does not affect its input.
  kept.run(true, notes, {"privacy.target_epsilon=1", "steps=3", "seed=2"});
  CHECK(kept.files().size() == 2);
  CHECK(count_of(notes, "took") == 2);
  // Other weights, one more example, or another transform give other features.
  kept.run(true, notes, {}, -0.3f);
  CHECK(kept.files().size() == 4);
  kept.run(true, notes, {"data.rows=61"});
  CHECK(count_of(notes, "kept the outputs of frozen layers for 61 examples") == 1);
  const std::size_t before = kept.files().size();
  kept.run(true, notes, {"data.transforms=[{kind: scale_max_norm, to: 0.5}]"});
  CHECK(kept.files().size() == before + 2);
  kept.run(true, notes, {"model.activation=relu"});
  CHECK(kept.files().size() == before + 4);
}

TEST_CASE("kept features are whole, or not used", "[features][privacy]") {
  TempDir home;
  Notes notes;
  const core::FeatureCache cache(home.path() / "features",
                                 [&](const std::string& text) { notes.push_back(text); });
  CHECK_FALSE(cache.find(kKey));
  CHECK(notes.empty());
  cache.keep(kKey, kFeatures);
  const fs::path file = home.path() / "features" / (core::sha256_hex(kKey.text) + ".features");
  const std::string whole = described_file();
  CHECK(read_file(file) == whole);
  CHECK(same_bits(cache.find(kKey).value(), kFeatures));

  const auto is_refused = [&](const std::string& text) {
    write_file(file, text);
    notes.clear();
    return !cache.find(kKey) && count_of(notes, "kept features of 2 examples are damaged") == 1;
  };
  for (std::size_t byte = 0; byte < whole.size(); ++byte) {
    std::string flipped = whole;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 4);
    INFO(byte);
    CHECK(is_refused(flipped));
  }
  CHECK(is_refused(""));
  CHECK(is_refused(whole.substr(0, whole.size() - 1)));
  CHECK(is_refused(whole + "0"));
  // A file of another key, under this one's name.
  std::string other = whole.substr(0, whole.size() - 64);
  other[other.find("test")] = 'b';
  CHECK(is_refused(other + core::sha256_hex(other)));
  // Links and pipes are neither followed nor waited for.
  write_file(home.path() / "elsewhere", whole);
  fs::remove(file);
  fs::create_symlink(home.path() / "elsewhere", file);
  notes.clear();
  CHECK_FALSE(cache.find(kKey));
  CHECK(notes.size() == 1);
  fs::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  CHECK_FALSE(cache.find(kKey));
  // A damaged file is replaced.
  cache.keep(kKey, kFeatures);
  CHECK(read_file(file) == whole);
}

TEST_CASE("a damaged file costs time and nothing else", "[features]") {
  const Kept kept;
  Notes notes;
  const auto first = kept.run(true, notes);
  for (const fs::path& file : kept.files()) {
    std::string text = read_file(file);
    text[text.size() - 70] = static_cast<char>(text[text.size() - 70] ^ 1);
    write_file(file, text);
  }
  notes.clear();
  check_same(kept.run(true, notes), first);
  CHECK(count_of(notes, "kept features of") == 2);
  CHECK(count_of(notes, "kept the outputs") == 2);
  notes.clear();
  check_same(kept.run(true, notes), first);
  CHECK(count_of(notes, "took") == 2);
}

TEST_CASE("an example that is not a number stays none", "[features][privacy]") {
  const auto features_of = [](const fs::path& folder, Notes& notes) {
    Experiment experiment(kHead, {"data={kind: csv, train: rows.csv, target: y, classes: 2}",
                                  "model.activation=relu"});
    std::string rows = "a,b,c,y\n";
    for (int i = 0; i < 299; ++i)
      rows += std::to_string(0.01 * i) + ",0.5,-1," + std::to_string(i % 2) + "\n";
    // In single precision the products overflow.
    write_file(experiment.dir() / "rows.csv", rows + "3e38,-3e38,3e38,1\n");
    write_file(experiment.dir() / "base.safetensors",
               safetensors_of({{"layers.0.weight", {4, 3}, std::vector<float>(12, 9.0f)},
                               {"layers.0.bias", {4}, std::vector<float>(4, 0.5f)}}));
    const core::Plan& plan = experiment.plan();
    const core::FeatureCache cache(folder, [&](const std::string& text) { notes.push_back(text); });
    core::RunData data = core::read_rows(plan.manifest->data, *plan.setting);
    core::apply_transforms(*plan.manifest, *plan.setting, data, 1, &cache);
    const auto features = data.train.features();
    return std::vector<float>(features.begin(), features.end());
  };
  TempDir home;
  Notes notes;
  const std::vector<float> computed = features_of(home.path() / "features", notes);
  const std::vector<float> taken = features_of(home.path() / "features", notes);
  CHECK(count_of(notes, "took") == 1);
  REQUIRE(computed.size() == 1200);
  CHECK(std::isfinite(computed[1195]));
  CHECK(std::isnan(computed[1196]));
  CHECK(same_bits(computed, taken));
}

TEST_CASE("nobody else can look into what is kept", "[features][privacy]") {
  TempDir home;
  const auto mode_of = [](const fs::path& path) {
    struct stat facts {};
    REQUIRE(::lstat(path.c_str(), &facts) == 0);
    return facts.st_mode & 0777;
  };
  const mode_t before = ::umask(0);
  const fs::path folder = home.path() / "a" / "features";
  core::FeatureCache((folder.string() + "/"), {}).keep(kKey, kFeatures);
  ::umask(before);
  CHECK(mode_of(folder) == 0700);
  CHECK(mode_of(folder / (core::sha256_hex(kKey.text) + ".features")) == 0600);

  for (const mode_t open : {0750, 0701, 0722}) {
    REQUIRE(::chmod(folder.c_str(), open) == 0);
    CHECK_THROWS_AS(core::FeatureCache(folder, {}), ConfigError);
    CHECK_THROWS_AS(core::list_features(folder), ConfigError);
    CHECK_THROWS_AS(core::delete_features(folder), ConfigError);
  }
  REQUIRE(::chmod(folder.c_str(), 0700) == 0);
  fs::create_symlink(folder, home.path() / "link");
  CHECK_THROWS_AS(core::FeatureCache(home.path() / "link", {}), IoError);
  write_file(home.path() / "file", "");
  CHECK_THROWS_AS(core::FeatureCache(home.path() / "file", {}), IoError);
}

TEST_CASE("a full disk is noted, and leaves nothing", "[features]") {
  TempDir home;
  Notes notes;
  const core::FeatureCache cache(home.path(),
                                 [&](const std::string& text) { notes.push_back(text); });
  // A write beyond the limit fails, as on a full disk.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 40, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  cache.keep(kKey, kFeatures);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0],
             ContainsSubstring("2 examples are not stored") && ContainsSubstring("File too large"));
  CHECK(fs::is_empty(home.path()));
}

TEST_CASE("threads that keep and take the same features at once see them whole", "[features]") {
  TempDir home;
  const core::FeatureCache one(home.path(), {}), other(home.path(), {});
  std::atomic<int> wrong{0};
  const auto work = [&](const core::FeatureCache& cache) {
    for (int i = 0; i < 50; ++i) {
      cache.keep(kKey, kFeatures);
      const auto found = cache.find(kKey);
      if (!found || !same_bits(*found, kFeatures)) ++wrong;
    }
  };
  std::thread beside([&] { work(other); });
  work(one);
  beside.join();
  CHECK(wrong == 0);
  CHECK(core::list_features(home.path()).size() == 1);
}

TEST_CASE("what is kept is listed without its name, and deleted with all that was left beside it",
          "[features]") {
  TempDir home;
  const fs::path folder = home.path() / "features";
  CHECK(core::list_features(folder).empty());
  CHECK(core::delete_features(folder).empty());
  core::FeatureCache(folder, {}).keep(kKey, kFeatures);
  const std::string hash = core::sha256_hex("another");
  write_file(folder / (hash + ".features.0123456789abcdef.new"), "a process was killed");
  write_file(folder / (hash + ".features"), "no features");
  write_file(folder / "notes.txt", "somebody's own");
  std::vector<core::KeptFeatures> kept = core::list_features(folder);
  REQUIRE(kept.size() == 3);
  CHECK(std::count_if(kept.begin(), kept.end(), [](const core::KeptFeatures& one) {
          return one.rows == 2 && one.row_size == 3 && one.bytes == described_file().size();
        }) == 1);
  CHECK(std::count_if(kept.begin(), kept.end(),
                      [](const core::KeptFeatures& one) { return one.rows == 0; }) == 2);
  CHECK(core::delete_features(folder).size() == 3);
  CHECK(fs::exists(folder / "notes.txt"));
  fs::remove(folder / "notes.txt");
  core::FeatureCache(folder, {}).keep(kKey, kFeatures);
  core::delete_features(folder);
  CHECK_FALSE(fs::exists(folder));
}
