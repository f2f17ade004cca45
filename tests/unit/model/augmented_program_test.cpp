#include "privgrad/model/augmented_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support.hpp"

using namespace privgrad;

namespace {

constexpr std::size_t kHeight = 5, kWidth = 3, kPixels = kHeight * kWidth;

/// The "gradient" of an example is the example itself, so that alterations are visible.
struct Shows : Program {
  std::size_t parameter_count() const override { return kPixels; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const Batch& batch, std::span<float> rows) const override {
    std::copy(batch.features.begin(), batch.features.end(), rows.begin());
  }
  Evaluation evaluate(const Batch& batch) const override {
    return {.loss = static_cast<double>(batch.features.front()), .correct = 0};
  }
};
struct ShowsReproducibly final : Shows, ReproducibleRows {};

std::unique_ptr<core::AugmentedProgram> program(std::size_t copies, bool flip, bool crop) {
  return std::make_unique<core::AugmentedProgram>(
      std::make_unique<ShowsReproducibly>(), privgrad::Shape{kHeight, kWidth},
      privgrad::core::Augmentation{.copies = copies, .flip = flip, .crop = crop});
}

const core::RandomKey kKey = core::RandomKey::from_seed(7);

std::vector<float> image(float first) {
  std::vector<float> pixels(kPixels);
  std::iota(pixels.begin(), pixels.end(), first);
  return pixels;
}

std::vector<float> rows_of(core::AugmentedProgram& program, const std::vector<float>& features,
                           std::uint64_t step, const core::RandomKey& key = kKey) {
  const core::AugmentedStep open(program, key, step);
  const std::vector<float> targets(features.size() / kPixels);
  std::vector<float> rows(features.size());
  program.gradient_rows({features, targets}, rows);
  return rows;
}

std::vector<float> mirrored(const std::vector<float>& pixels) {
  std::vector<float> other = pixels;
  for (std::size_t i = 0; i < kHeight; ++i)
    std::reverse(other.begin() + static_cast<std::ptrdiff_t>(i * kWidth),
                 other.begin() + static_cast<std::ptrdiff_t>((i + 1) * kWidth));
  return other;
}

/// Returns the pixels shifted by this many places, with zeros moving in, by the definition.
std::vector<float> moved(const std::vector<float>& pixels, int down, int right) {
  std::vector<float> other(kPixels, 0.0f);
  for (int i = 0; i < static_cast<int>(kHeight); ++i) {
    for (int j = 0; j < static_cast<int>(kWidth); ++j) {
      const int y = i - down, x = j - right;
      if (y < 0 || x < 0 || y >= static_cast<int>(kHeight) || x >= static_cast<int>(kWidth))
        continue;
      other[static_cast<std::size_t>(i) * kWidth + static_cast<std::size_t>(j)] =
          pixels[static_cast<std::size_t>(y) * kWidth + static_cast<std::size_t>(x)];
    }
  }
  return other;
}

}  // namespace

TEST_CASE("a copy is the image or its mirror image, each half of the time", "[augmentation]") {
  // 1000 draws; a fair coin deviates from 500 by more than 80 with a probability below 1e-6 (5.06
  // standard deviations), and the seed is fixed.
  const auto one = program(1, true, false);
  const std::vector<float> pixels = image(1.0f);
  int mirrors = 0;
  for (std::uint64_t step = 0; step < 1000; ++step) {
    const std::vector<float> seen = rows_of(*one, pixels, step);
    if (seen == mirrored(pixels)) {
      ++mirrors;
    } else {
      REQUIRE(seen == pixels);
    }
  }
  CHECK(std::abs(mirrors - 500) <= 80);
}

TEST_CASE("a crop moves the image by up to four places each way, all equally often",
          "[augmentation]") {
  // 81 shifts with 40 expected draws each; 45 of the shifts are distinguishable on 5 x 3 pixels
  // (shifts by 3 and 4 to a side leave nothing). Chi-squared with 44 degrees of freedom is above
  // 110 with a probability below 1e-6.
  const auto one = program(1, false, true);
  const std::vector<float> pixels = image(1.0f);
  constexpr int kDraws = 3240;
  std::vector<int> found(9 * 5);
  int empty = 0;
  for (std::uint64_t step = 0; step < kDraws; ++step) {
    const std::vector<float> seen = rows_of(*one, pixels, step);
    if (std::all_of(seen.begin(), seen.end(), [](float x) { return x == 0.0f; })) {
      ++empty;
      continue;
    }
    bool is_known = false;
    for (int down = -4; down <= 4; ++down) {
      for (int right = -2; right <= 2; ++right) {
        if (seen != moved(pixels, down, right)) continue;
        ++found[static_cast<std::size_t>((down + 4) * 5 + right + 2)];
        is_known = true;
      }
    }
    REQUIRE(is_known);
  }
  double statistic = 0.0;
  for (const int count : found) statistic += (count - 40.0) * (count - 40.0) / 40.0;
  statistic += (empty - 1440.0) * (empty - 1440.0) / 1440.0;  // 36 of the 81 moves
  CHECK(statistic < 110.0);
}

TEST_CASE("the row of an example is the mean of its copies", "[augmentation]") {
  // The mean of 20 copies of an image and its mirror image is a mixture of the two.
  const auto many = program(20, true, false);
  const std::vector<float> pixels = image(1.0f), other = mirrored(pixels);
  std::set<int> shares;
  for (std::uint64_t step = 0; step < 50; ++step) {
    const std::vector<float> seen = rows_of(*many, pixels, step);
    const double share = 20.0 * (seen[0] - pixels[0]) / (other[0] - pixels[0]);
    CHECK_THAT(share, WithinAbs(std::round(share), 1e-4));
    shares.insert(static_cast<int>(std::round(share)));
    for (std::size_t i = 0; i < kPixels; ++i)
      CHECK_THAT(seen[i], WithinAbs(pixels[i] + share / 20.0 * (other[i] - pixels[i]), 1e-5));
  }
  CHECK(shares.size() > 3);  // copies have their own coins
}

TEST_CASE("the row of an example depends on it, the step and the key alone",
          "[augmentation][privacy]") {
  const auto some = program(3, true, true);
  std::vector<float> features;
  for (int row = 0; row < 6; ++row) {
    const std::vector<float> pixels = image(static_cast<float>(100 * row));
    features.insert(features.end(), pixels.begin(), pixels.end());
  }
  const std::vector<float> all = rows_of(*some, features, 4);
  for (std::size_t row = 0; row < 6; ++row) {
    const std::vector<float> alone = rows_of(*some, image(100.0f * static_cast<float>(row)), 4);
    CHECK(std::memcmp(alone.data(), all.data() + row * kPixels, kPixels * sizeof(float)) == 0);
  }
  // In another step, and under another key, its copies are different.
  CHECK(rows_of(*some, features, 5) != all);
  CHECK(rows_of(*some, features, 4, core::RandomKey::from_seed(8)) != all);
  CHECK(rows_of(*some, features, 4) == all);
}

TEST_CASE("outside of steps, and where they are measured, examples are as they are",
          "[augmentation]") {
  const auto some = program(3, true, true);
  const std::vector<float> pixels = image(1.0f), target(1);
  std::vector<float> row(kPixels);
  some->gradient_rows({pixels, target}, row);
  CHECK(row == pixels);
  const core::AugmentedStep open(*some, kKey, 0);
  CHECK(some->evaluate({pixels, target}).loss == 1.0);
}

TEST_CASE("a mean of copies offers rows to certify, and no products", "[augmentation][privacy]") {
  const auto exact = program(2, true, false);
  CHECK(core::ability_of<privgrad::ReproducibleRows>(*exact) != nullptr);
  CHECK(core::ability_of<privgrad::ExactClipping>(*exact) == nullptr);
  const auto plain = std::make_unique<core::AugmentedProgram>(
      std::make_unique<Shows>(), privgrad::Shape{kHeight, kWidth},
      privgrad::core::Augmentation{.copies = 2, .flip = true, .crop = false});
  CHECK(core::ability_of<privgrad::ReproducibleRows>(*plain) == nullptr);
}
