// PRIVGRAD_INSTRUCTIONS, and results that must not depend on it.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>

#include "cli.hpp"
#include "token_rows.hpp"

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kLevels{"plain", "avx2", "avx512"};

/// Returns the levels of this processor, according to the kernel.
std::set<std::string> levels_of_processor() {
  std::set<std::string> flags;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; flags.empty() && std::getline(in, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    flags.insert(std::istream_iterator<std::string>(words), {});
  }
  const auto has = [&](const std::vector<std::string>& wanted) {
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](const std::string& flag) { return flags.contains(flag); });
  };
  std::set<std::string> levels{"plain"};
  if (has({"avx2", "fma"})) levels.insert("avx2");
  if (has({"avx2", "fma", "avx512f", "avx512dq", "avx512vl"})) levels.insert("avx512");
  return levels;
}

Outcome call_at(const Cli& cli, const std::string& level, const Words& words) {
  Call what = cli.prepare(words);
  what.environment["PRIVGRAD_INSTRUCTIONS"] = level;
  return call(what);
}

/// Returns a model file without the values that transforms have learnt. These come from a BLAS
/// (pca), whose kernels round differently in digits that the features do not show.
std::string trained_part(const std::string& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  std::string trained;
  const Json header = Json::parse(file.substr(sizeof length, length));
  for (const auto& [name, tensor] : header.items()) {
    if (name.starts_with("preprocessing.")) continue;
    trained += name + tensor.dump();
    if (name == "__metadata__") continue;
    const auto begin = tensor.at("data_offsets")[0].get<std::size_t>();
    const auto end = tensor.at("data_offsets")[1].get<std::size_t>();
    trained += file.substr(sizeof length + length + begin, end - begin);
  }
  return trained;
}

/// Returns the model that a run of `manifest` trains, at each level that the processor has.
std::map<std::string, std::string> models(const Cli& cli, const std::string& manifest,
                                          const Words& settings = {}) {
  write_file(cli.dir() / "run.yaml", manifest);
  std::map<std::string, std::string> found;
  for (const std::string& level : levels_of_processor()) {
    fs::remove_all(cli.out(level));
    Words words{"run", "run.yaml", "--quiet", "--out", level};
    for (const std::string& setting : settings) {
      words.push_back("--set");
      words.push_back(setting);
    }
    const Outcome run = call_at(cli, level, words);
    INFO(level << ": " << run.err);
    REQUIRE(run.exit_code == 0);
    found[level] = trained_part(read_file(cli.out(level) / "model.safetensors"));
  }
  return found;
}

void check_equal(const std::map<std::string, std::string>& models) {
  for (const auto& [level, model] : models) {
    INFO(level << " beside plain");
    const bool same = model == models.at("plain");  // not in CHECK, which would print both
    CHECK(same);
  }
}

/// A CSV file of `rows` rows and `columns` features, feature(row, column), and a last column.
template <class Feature, class Target>
std::string table(int rows, int columns, Feature feature, Target target) {
  std::string text;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      text += std::to_string(feature(row, column)) + ",";
    }
    text += std::to_string(target(row)) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("PRIVGRAD_INSTRUCTIONS chooses a level that the processor has, and no other") {
  const Cli cli;
  const auto here = levels_of_processor();
  for (const std::string& level : kLevels) {
    const Outcome version = call_at(cli, level, {"--version"});
    if (here.contains(level)) {
      CHECK(version.exit_code == 0);
      CHECK(version.out.ends_with("instructions " + level + "\n"));
    } else {
      check_one_error_line(version, 2);
      CHECK(version.err.find("'" + level + "', which this processor lacks") != std::string::npos);
    }
  }
  // If it is not set, the highest level of the processor is used.
  const std::string highest =
      *std::find_if(kLevels.rbegin(), kLevels.rend(),
                    [&](const std::string& level) { return here.contains(level); });
  CHECK(cli({"--version"}).out.ends_with("instructions " + highest + "\n"));

  for (const std::string wrong : {"sse2", "AVX2", ""}) {
    const Outcome refused = call_at(cli, wrong, {"--version"});
    check_one_error_line(refused, 2);
    CHECK(refused.err == "privgrad: error: PRIVGRAD_INSTRUCTIONS is '" + wrong +
                             "', allowed are avx512, avx2 and plain\n");
  }
}

// All features are 0, so matrix products round nothing: weights get only noise, and biases get the
// gradients of the loss. Any difference between levels comes from the noise, the release, the
// clipped sum or the optimizer.
TEST_CASE("noise, releases and optimizers give the same bits at every level") {
  const Cli cli;
  write_file(cli.dir() / "zeros.csv",
             table(
                 40, 300, [](int, int) { return 0; }, [](int row) { return row % 10; }));
  const std::string manifest = R"(privgrad: 1
seed: 3
data: {kind: csv, header: false, train: zeros.csv, target: "300", classes: 10}
model: {kind: linear}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: uniform, clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 20
)";
  const auto setting =
      GENERATE(as<std::string>(), "optimizer=sgd", "optimizer={kind: momentum, beta: 0.9}",
               "optimizer=adam", "aggregator={kind: tree, momentum: 0.9}");
  CAPTURE(setting);
  check_equal(models(cli, manifest, {setting}));
}

// One step on small whole numbers without clipping: every product and sum is exact in float32, in
// any order, and noise is small enough to show the sum's last bit.
TEST_CASE("a clipped sum that is exact is the same at every level") {
  const Cli cli;
  write_file(cli.dir() / "small.csv",
             table(
                 64, 100, [](int row, int column) { return (row * 7 + column * 3) % 5 - 2; },
                 [](int row) { return row % 9 - 4; }));
  const auto clipping = GENERATE(as<std::string>(), "flat", "per_layer");
  CAPTURE(clipping);
  check_equal(models(cli, R"(privgrad: 1
seed: 3
data: {kind: csv, header: false, train: small.csv, target: "100", task: regression}
model: {kind: linear, loss: squared}
sampler: full_batch
optimizer: sgd
schedules: {noise_multiplier: {kind: constant, value: 1e-6}, clip_norm: 1024, learning_rate: 0.5}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 1
)",
                     {"clipping=" + clipping}));
}

// One step on one example, with initial weights 0: the released gradient is a multiple of the
// example's features, and noise is small enough to show their last bits.
TEST_CASE("an example becomes the same bits at every level, whatever transforms it") {
  const Cli cli;
  write_file(
      cli.dir() / "wide.csv",
      table(
          64, 40, [](int row, int column) { return std::sin(std::pow(row * 40.0 + column, 2)); },
          [](int row) { return row % 9 - 4; }));
  const auto transforms = GENERATE(as<std::string>(), "[{kind: pca, dimensions: 35}]", "[whiten]",
                                   "[standardize, {kind: scale_max_norm, to: 3}]",
                                   "[flatten, {kind: scale_max_norm, to: 3, max_norm: 2}]");
  CAPTURE(transforms);
  check_equal(models(cli, R"(privgrad: 1
seed: 3
data: {kind: csv, header: false, train: wide.csv, target: "40", task: regression}
model: {kind: linear, loss: squared}
sampler: {kind: fixed_size, batch_size: 1}
aggregator: {kind: gaussian, arithmetic: float}
optimizer: sgd
schedules: {noise_multiplier: {kind: constant, value: 1e-6}, clip_norm: 1024, learning_rate: 0.5}
privacy: {target_delta: 1e-5, adjacency: replace_one, accountant: rdp}
steps: 1
)",
                     {"data.transforms=" + transforms}));
}

// The same for images, and for the coefficients of a transform with its own vector code.
TEST_CASE("an image becomes the same bits at every level by scattering") {
  const Cli cli;
  std::string images("\0\0\x08\x03\0\0\0\x08\0\0\0\x0b\0\0\0\x09", 16);
  std::string labels("\0\0\x08\x01\0\0\0\x08", 8);
  for (int row = 0; row < 8; ++row) {
    labels += static_cast<char>(row % 2);
    for (int i = 0; i < 99; ++i) images += static_cast<char>((row + 31) * (i + 7) * i / 3 % 256);
  }
  write_file(cli.dir() / "images", images);
  write_file(cli.dir() / "labels", labels);
  const auto transforms =
      GENERATE(as<std::string>(), "[scattering]", "[{kind: scattering, scales: 3, angles: 5}]",
               "[{kind: scattering, scales: 1, angles: 9, max_order: 1}]");
  CAPTURE(transforms);
  check_equal(models(cli, R"(privgrad: 1
seed: 3
data: {kind: idx, train: {images: images, labels: labels}, classes: 2}
model: {kind: linear, loss: squared}
sampler: {kind: fixed_size, batch_size: 1}
aggregator: {kind: gaussian, arithmetic: float}
optimizer: sgd
schedules: {noise_multiplier: {kind: constant, value: 1e-6}, clip_norm: 1024, learning_rate: 0.5}
privacy: {target_delta: 1e-5, adjacency: replace_one, accountant: rdp}
steps: 1
)",
                     {"data.transforms=" + transforms}));
}

// Products are chains of fused multiply-adds in a fixed order, and all sums over examples are sums
// of whole numbers, so a whole run has the same bits at every level.
TEST_CASE("whole training runs give the same bits at every level") {
  const Cli cli;
  const auto settings = GENERATE(
      Words{"model={kind: mlp, hidden: [16]}"},
      Words{"model={kind: mlp, hidden: [9, 5], activation: tanh}"},
      Words{"model={kind: mlp, hidden: [7]}", "clipping=normalized", "optimizer=adam"},
      Words{"model={kind: mlp, hidden: [7]}", "clipping={kind: adaptive, quantile: 0.5}"},
      Words{"model={kind: mlp, hidden: [16]}", "sampler={kind: shuffle, batch_size: 20}",
            "aggregator={kind: tree, momentum: 0.9}"},
      Words{"model={kind: mlp, hidden: [16]}", "aggregator={kind: gaussian, arithmetic: float}"},
      Words{"model={kind: mlp, hidden: [16]}", "privacy.noise=off"}, kEncoder, kDecoder);
  CAPTURE(settings);
  write_tokens(cli.dir());
  Words all = settings;
  all.push_back("seed=3");
  check_equal(models(cli, Cli::kManifest, all));
}

TEST_CASE("federated runs give the same bits at every level, those that protect clients too") {
  const Cli cli;
  const std::string manifest = R"(privgrad: 1
seed: 1
data: {kind: synthetic, rows: 200, test_rows: 20, dimensions: 10, test_is_public: true}
model: {kind: mlp, hidden: [12]}
sampler: {kind: poisson, sample_rate: 0.2}
optimizer: {kind: momentum, beta: 0.5}
schedules: {noise_multiplier: 2, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_epsilon: 6, target_delta: 1e-5, adjacency: add_or_remove_one, accountant: rdp}
steps: 12
federated: {clients: 4, rounds: 4, local_iterations: 3}
)";
  const auto settings =
      GENERATE(Words{}, Words{"federated.aggregation=dp_fed_avg", "federated.client_clip_norm=1"},
               Words{"federated.local_iterations={kind: ali_dpfl}"});
  CAPTURE(settings);
  check_equal(models(cli, manifest, settings));
}
