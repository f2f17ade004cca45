// Altered copies of images, whose mean gradient replaces the image's gradient.
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "npy_file.hpp"
#include "privgrad/falsify/falsify.hpp"
#include "train.hpp"
#include "verify.hpp"

using namespace privgrad;

namespace {

constexpr const char* kImages = R"(privgrad: 1
seed: 1
data: {kind: npy, train: {features: x.npy, targets: y.npy}, classes: 2}
model:
  kind: cnn
  layers: [{kind: conv2d, channels: 2, kernel: 3, stride: 2}, {kind: activation, function: tanh}]
augmentation: {copies: 4, kinds: [flip, crop]}
sampler: full_batch
optimizer: sgd
schedules: {clip_norm: 1, learning_rate: 0.5}
privacy: {target_epsilon: 3, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}
steps: 3
)";

constexpr std::size_t kImageCount = 20, kImageSide = 6;

/// \param symmetric  whether each image is its own mirror image.
struct Images : Experiment {
  explicit Images(const std::vector<std::string>& overrides = {}, bool symmetric = false)
      : Experiment(kImages, overrides) {
    std::mt19937 random(1);
    std::vector<float> pixels(kImageCount * kImageSide * kImageSide);
    for (float& pixel : pixels) pixel = static_cast<float>(random() % 256) / 255.0f;
    for (std::size_t i = 0; symmetric && i < pixels.size(); i += kImageSide) {
      for (std::size_t j = 0; j < kImageSide / 2; ++j)
        pixels[i + kImageSide - 1 - j] = pixels[i + j];
    }
    std::vector<std::uint8_t> labels(kImageCount);
    for (std::size_t i = 0; i < kImageCount; ++i) labels[i] = i % 2;
    write_file(dir() / "x.npy", array_file("<f4", "20, 6, 6", pixels));
    write_file(dir() / "y.npy", array_file("|u1", "20,", labels));
  }
};

const std::vector<std::string> kOff{"privacy.noise=off", "schedules.clip_norm=1e6"};

std::string images_refusal(const std::vector<std::string>& overrides) {
  Images experiment(overrides);
  try {
    experiment.plan();
  } catch (const Error& problem) {
    return problem.what();
  }
  return "it was planned";
}

}  // namespace

TEST_CASE("copies of an image that altering leaves as it is change nothing but roundings",
          "[augmentation]") {
  // Without copies, contributions consist of factors of some 13 bits: they differ from the
  // gradients by a few parts in ten thousand.
  const auto trained = [](const std::string& augmentation) {
    std::vector<std::string> overrides = kOff;
    overrides.push_back("augmentation=" + augmentation);
    Images images(overrides, true);
    images.run();
    return images.parameters();
  };
  const std::vector<float> three = trained("{copies: 3, kinds: [flip]}"),
                           one = trained("{copies: 1, kinds: [flip]}"), plain = trained("null");
  REQUIRE(three.size() == plain.size());
  for (std::size_t i = 0; i < three.size(); ++i) {
    CHECK_THAT(three[i], WithinAbs(one[i], 1e-6));
    CHECK_THAT(three[i], WithinAbs(plain[i], 2e-4));
  }
}

TEST_CASE("steps with altered copies are exact, cost what others cost, and verify",
          "[augmentation][privacy]") {
  Images altered, plain({"augmentation=null"});
  CHECK(altered.plan().covers_bits());
  CHECK(altered.plan().epsilon().value == plain.plan().epsilon().value);
  CHECK(altered.plan().noise_multiplier == plain.plan().noise_multiplier);
  const core::RunResult run = altered.run();
  plain.run();
  CHECK(altered.parameters() != plain.parameters());
  CHECK(run.statement.at("floating_point") == "exact");
  CHECK(run.statement.at("augmentation") ==
        nlohmann::json{{"copies", 4}, {"kinds", {"flip", "crop"}}});
  CHECK(verify::all_of(verify::check(altered.run_dir()).problems) == "");
  Images threads;
  threads.run(3);
  CHECK(threads.parameters() == altered.parameters());
}

TEST_CASE("neighbouring runs make every release with altered copies again from single rows",
          "[augmentation][privacy]") {
  Images experiment;
  const core::Falsified found = core::falsify(experiment.plan(), {.steps = 2});
  CHECK(found.differences.empty());
  CHECK(found.coordinates > 0);
}

TEST_CASE("what has no copies that mean something refuses to alter them", "[augmentation]") {
  CHECK_THAT(images_refusal({"data.transforms=[flatten]", "model={kind: mlp, hidden: [4]}"}),
             ContainsSubstring("augmentation: alters images"));
  CHECK_THAT(images_refusal({"federated={clients: 2, rounds: 2, local_iterations: 1}"}),
             ContainsSubstring("augmentation: is for central runs"));
  CHECK_THAT(images_refusal({"sampler={kind: shuffle, batch_size: 5}",
                             "aggregator={kind: tree_reduced, momentum: 0.5, smoothness: 1}"}),
             ContainsSubstring("differences between the gradients of two steps"));
  CHECK_THAT(images_refusal({"augmentation={copies: 0, kinds: [flip]}"}),
             ContainsSubstring("augmentation.copies"));
  CHECK_THAT(images_refusal({"augmentation={copies: 2, kinds: [mixup]}"}),
             ContainsSubstring("augmentation.kinds"));
}
