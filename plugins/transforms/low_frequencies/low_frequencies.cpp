#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/transform.hpp"

namespace {

using namespace privgrad;

constexpr std::size_t kMostNumbers = std::size_t{1} << 24;  // numbers in a matrix: 128 MiB

/// Returns the first `kept` rows of the orthonormal cosine transform (DCT-II) of `length` numbers,
/// [kept, length].
///
/// Computed in long double and rounded once, so that all processors get the same bits: cosines in
/// double differ with and without fused multiply-add.
std::vector<double> cosines(std::size_t kept, std::size_t length) {
  std::vector<double> matrix;
  matrix.reserve(kept * length);
  const auto n = static_cast<long double>(length);
  for (std::size_t k = 0; k < kept; ++k) {
    const long double factor = std::sqrt((k == 0 ? 1.0L : 2.0L) / n);
    for (std::size_t m = 0; m < length; ++m) {
      const auto halves = static_cast<long double>(k * (2 * m + 1));
      const long double angle = std::numbers::pi_v<long double> * halves / (2.0L * n);
      matrix.push_back(static_cast<double>(factor * std::cos(angle)));
    }
  }
  return matrix;
}

/// Keeps the low frequencies of each channel of an image, [height, width] or [height, width,
/// channels]: the first `height` rows and `width` columns of its cosine transform replace the
/// image.
///
/// A function of only the example: nothing is learnt, and nothing is charged. The transform is
/// orthonormal, so only the rounding to float32 can increase the norm of an example.
class LowFrequencies final : public Transform {
 public:
  explicit LowFrequencies(const Params& params)
      : rows_(static_cast<std::size_t>(params.integer("height"))),
        columns_(static_cast<std::size_t>(params.integer("width"))) {}

  ExampleShape output_shape(const ExampleShape& input) const override {
    const Shape& image = input.features;
    if (image.size() != 2 && image.size() != 3) {
      throw ConfigError("low_frequencies: an example is " + to_text(image) +
                        ", expected an image, [height, width] or [height, width, channels]");
    }
    check_side("height", rows_, image[0]);
    check_side("width", columns_, image[1]);
    Shape output = image;
    output[0] = rows_;
    output[1] = columns_;
    return {output, input.classes};
  }

  void fit(Dataset&) override {}

  void apply_row(const Shape& shape, std::span<const float> features,
                 std::span<float> out) const override {
    output_shape({shape, 0});
    const std::size_t height = shape[0], width = shape[1];
    const std::size_t channels = shape.size() == 3 ? shape[2] : 1;
    const std::vector<double> down = cosines(rows_, height), across = cosines(columns_, width);
    std::vector<double> line(width * channels), sums(channels);
    for (std::size_t r = 0; r < rows_; ++r) {
      std::ranges::fill(line, 0.0);
      for (std::size_t y = 0; y < height; ++y) {
        const float* in = features.data() + y * line.size();
        for (std::size_t i = 0; i < line.size(); ++i)
          line[i] += down[r * height + y] * static_cast<double>(in[i]);
      }
      for (std::size_t c = 0; c < columns_; ++c) {
        std::ranges::fill(sums, 0.0);
        for (std::size_t x = 0; x < width; ++x) {
          for (std::size_t i = 0; i < channels; ++i)
            sums[i] += across[c * width + x] * line[x * channels + i];
        }
        float* to = out.data() + (r * columns_ + c) * channels;
        for (std::size_t i = 0; i < channels; ++i) to[i] = static_cast<float>(sums[i]);
      }
    }
  }

  std::vector<RowOperation> row_operations(const Shape& shape) const override {
    output_shape({shape, 0});
    const std::size_t channels = shape.size() == 3 ? shape[2] : 1;
    namespace row = row_operation;
    return {row::ProjectAxis{shape[0], shape[1] * channels, rows_, cosines(rows_, shape[0])},
            row::ProjectAxis{shape[1], channels, columns_, cosines(columns_, shape[1])}};
  }

  Statistic statistic() const override { return Statistic::none; }
  bool is_by_row() const override { return true; }

 private:
  static void check_side(const std::string& name, std::size_t kept, std::size_t length) {
    if (kept > length) {
      throw ConfigError("low_frequencies: " + name + " is " + std::to_string(kept) +
                        ", but an image has only " + std::to_string(length) + " of them");
    }
    if (length > kMostNumbers / kept) {
      throw ConfigError("low_frequencies: " + name + " is " + std::to_string(kept) + " of " +
                        std::to_string(length) + ", allowed are products of at most " +
                        std::to_string(kMostNumbers));
    }
  }

  /// The numbers of frequencies to keep, vertically and horizontally.
  std::size_t rows_, columns_;
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, LowFrequencies>({
      .name = "low_frequencies",
      .summary =
          "The low frequencies of each channel of an image, by its cosine transform. Nothing "
          "is fitted.",
      .reference = "Ahmed, Natarajan and Rao 1974 (DCT-II, orthonormal)",
      .params =
          {
              param::integer("height", "How many frequencies are kept down the image.")
                  .at_least(1)
                  .at_most(4096)
                  .example(4),
              param::integer("width", "How many frequencies are kept across the image.")
                  .at_least(1)
                  .at_most(4096)
                  .example(4),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.low_frequencies", "0.1.0", "transform/low_frequencies",
                register_components)
