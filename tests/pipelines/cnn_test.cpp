#include "small_images.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

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
  small_images::write(experiment.dir());
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
  small_images::write(one.dir());
  small_images::write(two.dir());
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
  small_images::write(free.dir());
  small_images::write(limited.dir());
  free.run();
  limited.run();
  CHECK(free.parameters() == limited.parameters());
}
