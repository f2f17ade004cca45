// Wavelet scattering coefficients, compared with kymatio's and with the definition.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <numbers>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "house_plugins.hpp"
#include "privgrad/error.hpp"
#include "privgrad/transform.hpp"
#include "support.hpp"

using privgrad::ConfigError;
using privgrad::Dataset;
using privgrad::Shape;
using privgrad::Statistic;
using privgrad::Transform;
using privgrad::Value;

namespace {

privgrad::ComponentPtr<Transform> scattering(std::size_t scales, std::size_t angles,
                                             std::size_t max_order) {
  return house().create<Transform>(
      "scattering", Value(Value::Object{{"scales", static_cast<std::int64_t>(scales), {}},
                                        {"angles", static_cast<std::int64_t>(angles), {}},
                                        {"max_order", static_cast<std::int64_t>(max_order), {}}}));
}

/// As in scattering_golden.py.
std::vector<float> image(const std::string& kind, std::size_t height, std::size_t width,
                         std::size_t channels) {
  std::vector<float> pixels;
  const auto h = static_cast<int>(height), w = static_cast<int>(width);
  for (int y = 0; y < h; ++y) {
    for (int x = 0; x < w; ++x) {
      for (int c = 0; c < static_cast<int>(channels); ++c) {
        const int noise = (37 * y + 101 * x + 17 * y * x + 59 * c) % 256;
        const int down = 2 * y - h, across = 2 * x - w + 4 * c;
        const int ring = std::max(0, 255 - 2 * std::abs(down * down + across * across - h * w / 4));
        pixels.push_back(static_cast<float>(kind == "noise" ? noise : ring) / 255.0f);
      }
    }
  }
  return pixels;
}

/// The result of kymatio for an image.
struct Golden {
  std::string kind;
  std::size_t scales = 0, angles = 0, max_order = 0, height = 0, width = 0, channels = 0;
  std::vector<double> coefficients;  ///< [places, channels, coefficients].

  std::string words() const {
    return kind + " " + privgrad::to_text({height, width, channels}) + ", scales " +
           std::to_string(scales) + ", angles " + std::to_string(angles) + ", order " +
           std::to_string(max_order);
  }
};

std::vector<Golden> read_golden() {
  std::ifstream file(kSource / "tests/plugins/scattering_golden.txt");
  std::vector<Golden> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (line.starts_with("ring") || line.starts_with("noise")) {
      Golden& one = all.emplace_back();
      words >> one.kind >> one.scales >> one.angles >> one.max_order >> one.height >> one.width >>
          one.channels;
    } else {
      for (double number; words >> number;) all.at(all.size() - 1).coefficients.push_back(number);
    }
  }
  return all;
}

std::vector<float> coefficients(const Transform& transform, const Shape& shape,
                                const std::vector<float>& pixels) {
  std::vector<float> out(privgrad::element_count(transform.output_shape({shape, 0}).features));
  transform.apply_row(shape, pixels, out);
  return out;
}

/// || a - b || / || b ||.
double distance(std::span<const float> a, std::span<const double> b) {
  double difference = 0.0, square = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double gap = static_cast<double>(a[i]) - b[i];
    difference += gap * gap;
    square += b[i] * b[i];
  }
  return std::sqrt(difference / square);
}

/// Returns the offset and the number of the coefficients of each order at a place.
std::vector<std::pair<std::size_t, std::size_t>> orders(const Golden& golden) {
  const std::size_t J = golden.scales, L = golden.angles;
  std::vector<std::pair<std::size_t, std::size_t>> all{{0, 1}, {1, J * L}};
  if (golden.max_order == 2 && J > 1) all.emplace_back(1 + J * L, L * L * J * (J - 1) / 2);
  return all;
}

}  // namespace

TEST_CASE("scattering: the coefficients of kymatio, in its order, channels one after the other",
          "[transform][scattering]") {
  const std::vector<Golden> all = read_golden();
  REQUIRE(all.size() == 13);
  for (const Golden& golden : all) {
    INFO(golden.words());
    const Shape shape = golden.channels == 1 ? Shape{golden.height, golden.width}
                                             : Shape{golden.height, golden.width, golden.channels};
    const auto transform = scattering(golden.scales, golden.angles, golden.max_order);
    const auto found = coefficients(
        *transform, shape, image(golden.kind, golden.height, golden.width, golden.channels));
    REQUIRE(found.size() == golden.coefficients.size());
    CHECK(distance(found, golden.coefficients) < 1e-6);
    // Coefficients of order 2 are a hundredth as large as of order 0, so orders are compared
    // separately.
    const std::size_t per_place =
        transform->output_shape({shape, 0}).features.back() / golden.channels;
    for (const auto& [first, count] : orders(golden)) {
      std::vector<float> some;
      std::vector<double> wanted;
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (i % per_place < first || i % per_place >= first + count) continue;
        some.push_back(found[i]);
        wanted.push_back(golden.coefficients[i]);
      }
      INFO("coefficients from " << first);
      CHECK(distance(some, wanted) < 1e-5);
    }
  }
}

TEST_CASE("scattering: the bits of an image are its own", "[transform][scattering][privacy]") {
  // At any place in any set, with any other images, on each of the instruction sets (tests/cli).
  const auto transform = scattering(2, 8, 2);
  const Shape shape{12, 10, 2};
  const std::size_t size = privgrad::element_count(shape);
  const std::vector<float> one = image("ring", 12, 10, 2), other = image("noise", 12, 10, 2);
  const std::vector<float> alone = coefficients(*transform, shape, one);
  std::vector<float> hostile(size, std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < size; i += 2) hostile[i] = 1e-42f;
  for (const std::size_t place : {0u, 1u, 6u}) {
    std::vector<float> rows;
    for (std::size_t row = 0; row < 7; ++row) {
      const std::vector<float>& here = row == place ? one : other;
      rows.insert(rows.end(), here.begin(), here.end());
    }
    Dataset data({shape, 0}, rows, std::vector<float>(7));
    coefficients(*transform, shape, hostile);
    transform->apply(data);
    const auto there = data.features().subspan(place * alone.size(), alone.size());
    CHECK(std::memcmp(there.data(), alone.data(), there.size_bytes()) == 0);
  }
  // An image of another size in between: the filters are computed again.
  coefficients(*transform, {8, 9}, image("ring", 8, 9, 1));
  const std::vector<float> again = coefficients(*transform, shape, one);
  CHECK(std::memcmp(again.data(), alone.data(), alone.size() * sizeof(float)) == 0);
}

TEST_CASE("scattering: what is not a number becomes none, and the smallest ones stay",
          "[transform][scattering]") {
  using Limits = std::numeric_limits<float>;
  const auto transform = scattering(2, 4, 2);
  const Shape shape{9, 8};
  std::vector<float> pixels = image("noise", 9, 8, 1);
  for (const float value : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    std::vector<float> broken = pixels;
    broken[30] = value;
    const std::vector<float> found = coefficients(*transform, shape, broken);
    CHECK(std::any_of(found.begin(), found.end(), [](float x) { return !std::isfinite(x); }));
  }
  // Coefficients so small that their squares are 0 must not lose order 0, which is linear.
  for (float& pixel : pixels) pixel *= 1e-40f;
  const std::vector<float> small = coefficients(*transform, shape, pixels);
  CHECK(std::all_of(small.begin(), small.end(), [](float x) { return std::isfinite(x); }));
  CHECK(small[0] > 0.0f);
  // The overflow of one image does not affect others.
  std::vector<float> rows = image("noise", 9, 8, 1);
  const std::vector<float> whole = rows;
  rows.insert(rows.end(), 72, Limits::max());
  for (std::size_t i = 72; i < 144; i += 2) rows[i] = -Limits::max();
  Dataset data({shape, 0}, rows, std::vector<float>(2));
  transform->apply(data);
  const std::vector<float> alone = coefficients(*transform, shape, whole);
  const auto first = data.features().first(alone.size()),
             second = data.features().last(alone.size());
  CHECK(std::equal(first.begin(), first.end(), alone.begin(), alone.end()));
  CHECK(std::all_of(second.begin(), second.end(), [](float x) { return std::isnan(x); }));
}

TEST_CASE("scattering: a constant image has its value in order 0, and nothing in the others",
          "[transform][scattering]") {
  // A wavelet's mean is zero. kymatio's average uses 3.1415 for pi: a gain of pi / 3.1415.
  const auto transform = scattering(2, 8, 2);
  const auto found = coefficients(*transform, {28, 28}, std::vector<float>(28 * 28, 0.5f));
  REQUIRE(found.size() == 7 * 7 * 81);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double wanted = i % 81 == 0 ? 0.5 * std::numbers::pi / 3.1415 : 0.0;
    CHECK_THAT(static_cast<double>(found[i]), Catch::Matchers::WithinAbs(wanted, 1e-6));
  }
}

TEST_CASE("scattering: wavelets across the stripes of an image answer, those along them do not",
          "[transform][scattering]") {
  // Stripes with the frequency of the second scale, 3 pi / 8, that change from row to row.
  std::vector<float> pixels;
  for (std::size_t y = 0; y < 32; ++y)
    pixels.insert(
        pixels.end(), 32,
        static_cast<float>(std::cos(3.0 * std::numbers::pi / 8.0 * static_cast<double>(y))));
  const auto found = coefficients(*scattering(2, 4, 1), {32, 32}, pixels);
  const float* middle = found.data() + (4 * 8 + 4) * 9;
  // Angle number t of 4 has the direction (1 - t) pi / 4: number 1 is along y, number 3 along x.
  CHECK(middle[5 + 1] > 0.4f);
  CHECK(middle[5 + 3] < 0.01f);
  CHECK(middle[5 + 0] < middle[5 + 1]);
  CHECK(middle[5 + 2] < middle[5 + 1]);
}

TEST_CASE("scattering: nothing is learnt, and shapes are told", "[transform][scattering]") {
  const auto transform = scattering(2, 8, 2);
  CHECK(transform->statistic() == Statistic::none);
  CHECK(transform->output_shape({{28, 28}, 10}).features == Shape{7, 7, 81});
  CHECK(transform->output_shape({{32, 32, 3}, 10}).features == Shape{8, 8, 243});
  CHECK(transform->output_shape({{28, 28}, 10}).classes == 10);
  CHECK(scattering(3, 8, 2)->output_shape({{32, 32}, 0}).features == Shape{4, 4, 217});
  CHECK(scattering(1, 8, 1)->output_shape({{28, 28}, 0}).features == Shape{14, 14, 9});
}

TEST_CASE("scattering: what is not an image of a fitting size is refused",
          "[transform][scattering]") {
  const auto transform = scattering(3, 8, 2);
  CHECK_THROWS_WITH(transform->output_shape({{784}, 0}),
                    ContainsSubstring("an example is 784, expected an image, [height, width]"));
  CHECK_THROWS_WITH(
      transform->output_shape({{28, 7}, 0}),
      ContainsSubstring("its sides must be at least 2^scales = 8, so scales may be at "
                        "most 2"));
  CHECK_THROWS_WITH(transform->output_shape({{4096, 4096}, 0}), ContainsSubstring("at most"));
  CHECK_THROWS_AS(scattering(0, 8, 2), ConfigError);
  CHECK_THROWS_AS(scattering(2, 33, 2), ConfigError);
  CHECK_THROWS_AS(scattering(2, 8, 3), ConfigError);
}
