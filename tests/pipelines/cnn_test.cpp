#include <cstdint>
#include <random>

#include "train.hpp"

using namespace privgrad;

namespace {

constexpr std::uint32_t kImages = 120, kPixels = 8;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xff);
  return bytes;
}

/// Images whose left or right half is bright, in noise; the class says which.
void write_images(const std::filesystem::path& dir) {
  std::mt19937 random(3);
  std::string pixels, labels;
  for (std::uint32_t i = 0; i < kImages; ++i) {
    const std::uint32_t label = i % 2;
    labels += static_cast<char>(label);
    for (std::uint32_t at = 0; at < kPixels * kPixels; ++at) {
      const bool bright = (at % kPixels < kPixels / 2) == (label == 0);
      pixels += static_cast<char>(random() % 100 + (bright ? 100 : 0));
    }
  }
  write_file(dir / "images", std::string("\0\0\x08\x03", 4) + big_endian(kImages) +
                                 big_endian(kPixels) + big_endian(kPixels) + pixels);
  write_file(dir / "labels", std::string("\0\0\x08\x01", 4) + big_endian(kImages) + labels);
}

constexpr const char* kConvolutions = R"(privgrad: 1
seed: 1
data:
  kind: idx
  train: {images: images, labels: labels}
  test: {images: images, labels: labels}
model:
  kind: cnn
  layers:
    - {kind: conv2d, channels: 4, kernel: 3, padding: 1}
    - {kind: group_norm, groups: 2}
    - {kind: activation, function: tanh}
    - {kind: max_pool, window: 2}
    - {kind: conv2d, channels: 4, kernel: 3}
    - {kind: activation, function: relu}
    - {kind: avg_pool, window: 2, stride: 1}
sampler: {kind: full_batch}
optimizer: {kind: sgd}
schedules: {noise_multiplier: 1.0, clip_norm: 1.0, learning_rate: 0.5}
privacy: {target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 60
)";

}  // namespace

TEST_CASE("a convolutional network is trained from a manifest, under every clipping",
          "[run][clipping][cnn]") {
  const std::string clipping = GENERATE("flat", "per_layer", "automatic", "normalized", "adaptive");
  Experiment experiment(kConvolutions, {"clipping=" + clipping});
  write_images(experiment.dir());
  // conv 9 x 4 + 4; norm 4 + 4; conv 36 x 4 + 4; 8 -> 8 -> 4 -> 2 -> 1 pixels, so dense 4 x 2 + 2.
  CHECK(experiment.plan().parameters == 40 + 8 + 148 + 10);
  CHECK(experiment.plan().setting->groups.size() == 4);
  const auto result = experiment.run();
  INFO(clipping);
  CHECK(result.status == core::RunStatus::completed);
  CHECK(result.metrics.test_accuracy.value() > 0.9);
}

TEST_CASE("a convolutional network trains to the same bits on any number of threads",
          "[run][clipping][cnn]") {
  const std::string clipping = GENERATE("per_layer", "adaptive");
  Experiment one(kConvolutions, {"clipping=" + clipping, "steps=5"});
  Experiment two(kConvolutions, {"clipping=" + clipping, "steps=5"});
  write_images(one.dir());
  write_images(two.dir());
  one.run(1);
  two.run(2);
  CHECK(one.parameters() == two.parameters());
}

TEST_CASE("a limit on the examples in memory changes no bit of the result",
          "[run][clipping][cnn]") {
  const std::string clipping = GENERATE("flat", "adaptive");
  const std::string limit = GENERATE("1", "17", "64", "4294967295");
  Experiment free(kConvolutions, {"clipping=" + clipping, "steps=3"});
  Experiment limited(kConvolutions,
                     {"clipping=" + clipping, "steps=3", "microbatch_size=" + limit});
  write_images(free.dir());
  write_images(limited.dir());
  free.run();
  limited.run();
  CHECK(free.parameters() == limited.parameters());
}
