// A costly transform in whole runs: on any number of threads, and stored for the next run.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "left_files.hpp"
#include "privgrad/data/executor.hpp"
#include "privgrad/data/feature_cache.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/federated/any_run.hpp"
#include "train.hpp"

using namespace privgrad;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kRows = 70, kSide = 9;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xff);
  return bytes;
}

/// Returns noisy images whose left or right half is bright; the class says which.
std::string image_file(std::size_t rows, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string pixels;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t at = 0; at < kSide * kSide; ++at) {
      const bool bright = (at % kSide < kSide / 2) == (i % 2 == 0);
      pixels += static_cast<char>(random() % 100 + (bright ? 100 : 0));
    }
  }
  return std::string("\0\0\x08\x03", 4) + big_endian(static_cast<std::uint32_t>(rows)) +
         big_endian(kSide) + big_endian(kSide) + pixels;
}

std::string label_file(std::size_t rows) {
  std::string labels;
  for (std::size_t i = 0; i < rows; ++i) labels += static_cast<char>(i % 2);
  return std::string("\0\0\x08\x01", 4) + big_endian(static_cast<std::uint32_t>(rows)) + labels;
}

constexpr const char* kScattering = R"(privgrad: 1
name: waves
seed: 1
data:
  kind: idx
  train: {images: images, labels: labels}
  test: {images: test-images, labels: test-labels}
  classes: 2
  transforms: [scattering]
  test_is_public: true
model: linear
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 8, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 20
)";

/// Runs in the same folder, because the resolved manifest names its files.
struct Waves {
  TempDir home;
  fs::path folder = home.path() / "features";

  /// Returns all results of a run except its times, by file name.
  std::map<std::string, std::string> run(Notes* notes, int threads = 1,
                                         const std::vector<std::string>& overrides = {},
                                         std::uint32_t seed = 1) const {
    write_file(home.path() / "waves.yaml", kScattering);
    write_file(home.path() / "images", image_file(kRows, seed));
    write_file(home.path() / "labels", label_file(kRows));
    write_file(home.path() / "test-images", image_file(20, 7));
    write_file(home.path() / "test-labels", label_file(20));
    const fs::path directory = home.path() / "run";
    fs::remove_all(directory);
    std::optional<core::FeatureCache> cache;
    if (notes != nullptr)
      cache.emplace(folder, [&](const std::string& text) { notes->push_back(text); });
    const core::Manifest manifest =
        core::load_manifest(home.path() / "waves.yaml", overrides, house());
    const core::RunResult result =
        core::run(core::make_plan(manifest), {.directory = directory,
                                              .lock = "",
                                              .threads = threads,
                                              .date = "2026-01-01",
                                              .on_progress = {},
                                              .features = cache ? &*cache : nullptr});
    CHECK(result.metrics.test_accuracy.value() > 0.9);
    CHECK(result.summary.at("floating_point") == "exact");
    std::map<std::string, std::string> left;
    for (const char* name : {"model.safetensors", "ledger.jsonl", "metrics.jsonl"})
      left[name] = read_file(directory / name);
    for (const auto& [name, content] : left) CHECK_FALSE(content.empty());
    std::string& ledger = left.at("ledger.jsonl");  // its last line is bound to files with times
    ledger.resize(ledger.rfind('\n', ledger.size() - 2) + 1);
    return left;
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path());
    return all;
  }
};

/// Halves features; an intermediate overflow becomes NaN.
class Halves final : public Transform {
 public:
  ExampleShape output_shape(const ExampleShape& input) const override {
    return {{3}, input.classes};
  }
  void fit(Dataset&) override {}
  Statistic statistic() const override { return Statistic::none; }
  bool is_by_row() const override { return true; }
  void apply_row(const Shape& shape, std::span<const float> features,
                 std::span<float> out) const override {
    for (std::size_t i = 0; i < out.size() && shape == Shape{2, 3}; ++i)
      out[i] = features[2 * i] + features[2 * i + 1] - 0.5f * features[2 * i];
  }
};

}  // namespace

TEST_CASE("scattering leaves a run exact, nothing unaccounted, and accurate", "[scattering]") {
  const Waves waves;
  const auto left = waves.run(nullptr);
  CHECK(left.at("ledger.jsonl").find("scattering") == std::string::npos);
}

TEST_CASE("a run with scattering leaves the same bits on any number of threads", "[scattering]") {
  const Waves waves;
  const auto one = waves.run(nullptr, 1);
  CHECK(waves.run(nullptr, 3) == one);
}

TEST_CASE("a run with what scattering made kept leaves what it leaves without, bit for bit",
          "[scattering][features][privacy]") {
  const Waves waves;
  Notes first, second;
  const auto without = waves.run(nullptr);
  CHECK(waves.run(&first) == without);
  CHECK(waves.run(&second, 2) == without);
  CHECK(count_of(first, "kept the outputs of transform scattering for 70 examples") == 1);
  CHECK(count_of(first, "kept the outputs of transform scattering for 20 examples") == 1);
  CHECK(count_of(second, "took the outputs of transform scattering for 70 examples") == 1);
  CHECK(count_of(second, "took the outputs of transform scattering for 20 examples") == 1);
  CHECK(second.size() == 2);
}

TEST_CASE("a run computes with what was kept of scattering, not beside it",
          "[scattering][features]") {
  const Waves waves;
  Notes notes;
  const auto honest = waves.run(&notes);
  for (const fs::path& file : waves.files()) {
    // Different numbers with a matching hash: a forgery that only the user could make.
    std::string text = read_file(file);
    text.resize(text.size() - 64);
    const float other = 0.25f;
    std::memcpy(text.data() + text.size() - sizeof other, &other, sizeof other);
    write_file(file, text + core::sha256_hex(text));
  }
  CHECK(waves.run(&notes).at("model.safetensors") != honest.at("model.safetensors"));
}

TEST_CASE("what scattering made is kept for the same images and parameters alone",
          "[scattering][features][privacy]") {
  const Waves waves;
  Notes notes;
  waves.run(&notes);
  REQUIRE(waves.files().size() == 2);
  // Training on the features does not affect them.
  waves.run(&notes, 1, {"steps=19", "seed=2"});
  CHECK(waves.files().size() == 2);
  // Other parameters: both splits are computed again.
  waves.run(&notes, 1, {"data.transforms=[{kind: scattering, angles: 4}]"});
  CHECK(waves.files().size() == 4);
  // This holds even if an image becomes as many numbers: 2 x 2 x 16, and 4 x 4 x 4.
  waves.run(&notes, 1, {"data.transforms=[{kind: scattering, angles: 3}]"});
  waves.run(&notes, 1, {"data.transforms=[{kind: scattering, scales: 1, angles: 3}]"});
  CHECK(waves.files().size() == 8);
  // Other training images: that split is computed again.
  waves.run(&notes, 1, {}, 2);
  CHECK(waves.files().size() == 9);
  // Cheap transforms, and transforms fitted to rows, are not stored.
  waves.run(&notes, 1, {"data.transforms=[flatten, standardize]"});
  CHECK(waves.files().size() == 9);
}

TEST_CASE("rows are transformed alike by one and by more threads, those that overflow too",
          "[scattering][threads]") {
  std::vector<float> features(100 * 6);
  for (std::size_t i = 0; i < features.size(); ++i) features[i] = static_cast<float>(i % 13) - 6.0f;
  const auto first = features.begin() + 37 * 6;
  std::fill(first, first + 6, std::numeric_limits<float>::max());
  const Dataset raw({{2, 3}, 0}, features, std::vector<float>(100));
  const Halves halves;
  Dataset alone = raw;
  halves.apply(alone);
  CHECK(alone.shape().features == Shape{3});
  for (std::size_t row = 0; row < 100; ++row) {
    for (std::size_t i = 0; i < 3; ++i) {
      const float x = features[row * 6 + 2 * i], y = features[row * 6 + 2 * i + 1];
      if (row == 37) {
        CHECK(std::isnan(alone.features()[row * 3 + i]));
      } else {
        CHECK(alone.features()[row * 3 + i] == x + y - 0.5f * x);
      }
    }
  }
  for (const int threads : {1, 2, 5}) {
    Dataset together = raw;
    const auto executor = core::make_executor(threads);
    apply_to_each_row(halves, {3}, together, *executor);
    CHECK(std::memcmp(together.features().data(), alone.features().data(),
                      alone.features().size_bytes()) == 0);
  }
}
