#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cascade.hpp"
#include "operations.hpp"
#include "privgrad/error.hpp"
#include "privgrad/plugin.hpp"
#include "privgrad/transform.hpp"

namespace {

using namespace privgrad;

constexpr std::size_t kMostPixels = std::size_t{1} << 20;  // including borders; for up to 8 angles
constexpr double kMostNumbers = 2.5e8;                     // 8-byte numbers in the operations

/// Wavelet scattering coefficients of images, [height, width] or [height, width, channels],
/// computed for each channel separately.
///
/// It is a function of only the example, bit for bit: nothing is fitted, and it costs no privacy.
class Scattering final : public Transform {
 public:
  explicit Scattering(const Params& params)
      : scales_(static_cast<std::size_t>(params.integer("scales"))),
        angles_(static_cast<std::size_t>(params.integer("angles"))),
        max_order_(static_cast<std::size_t>(params.integer("max_order"))) {}

  ExampleShape output_shape(const ExampleShape& input) const override {
    const Shape& image = input.features;
    if (image.size() != 2 && image.size() != 3) {
      throw ConfigError("scattering: an example is " + to_text(image) +
                        ", expected an image, [height, width] or [height, width, channels]");
    }
    const std::size_t size = std::size_t{1} << scales_;
    if (image[0] < size || image[1] < size) {
      throw ConfigError("scattering: scales is " + std::to_string(scales_) + ", but an image is " +
                        to_text(image) + "; its sides must be at least 2^scales = " +
                        std::to_string(size) + fitting_scales(std::min(image[0], image[1])));
    }
    // A thread's memory grows with the number of pixels and with the number of angles.
    const std::size_t most = kMostPixels * 8 / std::max<std::size_t>(angles_, 8);
    if (image[0] > most || image[1] > most ||
        (image[0] + 2 * size) * (image[1] + 2 * size) > most) {
      throw ConfigError("scattering: an image is " + to_text(image) + ", allowed are with angles " +
                        std::to_string(angles_) + " at most " + std::to_string(most) +
                        " pixels, 2^scales more at each side counted in");
    }
    const std::size_t channels = image.size() == 3 ? image[2] : 1;
    return {{image[0] >> scales_, image[1] >> scales_,
             channels * scattering::Cascade::coefficients(scales_, angles_, max_order_)},
            input.classes};
  }

  void fit(Dataset&) override {}

  void apply_row(const Shape& shape, std::span<const float> features,
                 std::span<float> out) const override {
    const std::shared_ptr<const scattering::Cascade> cascade = cascade_for(shape);
    const std::size_t channels = shape.size() == 3 ? shape[2] : 1;
    const std::size_t each = scattering::Cascade::coefficients(scales_, angles_, max_order_);
    for (std::size_t channel = 0; channel < channels; ++channel)
      (*cascade)(features.data() + channel, channels, out.data() + channel * each, channels * each);
  }

  bool is_costly() const override { return true; }

  std::vector<RowOperation> row_operations(const Shape& shape) const override {
    output_shape({shape, 0});
    const scattering::Task task{.scales = scales_,
                                .angles = angles_,
                                .max_order = max_order_,
                                .height = shape[0],
                                .width = shape[1],
                                .channels = shape.size() == 3 ? shape[2] : 1};
    if (scattering::operation_numbers(task) > kMostNumbers) {
      throw ConfigError("scattering: for images of " + to_text(shape) +
                        " it cannot be expressed in operations: it would take more numbers than "
                        "files of ONNX hold");
    }
    return scattering::operations(task);
  }

  Statistic statistic() const override { return Statistic::none; }
  bool is_by_row() const override { return true; }

 private:
  /// Returns advice on scales for images whose shorter side is `side`.
  static std::string fitting_scales(std::size_t side) {
    const auto most = std::bit_width(side) - 1;
    return most < 1 ? "" : ", so scales may be at most " + std::to_string(most);
  }

  /// Returns the cascade for a size. Making filters takes much longer than transforming an example,
  /// so the filters for the last size are kept.
  std::shared_ptr<const scattering::Cascade> cascade_for(const Shape& shape) const {
    const std::lock_guard lock(mutex_);
    if (cascade_ == nullptr || height_ != shape[0] || width_ != shape[1]) {
      output_shape({shape, 0});  // refuses everything except an image of a suitable size
      cascade_ = std::make_shared<const scattering::Cascade>(scales_, angles_, max_order_, shape[0],
                                                             shape[1]);
      height_ = shape[0];
      width_ = shape[1];
    }
    return cascade_;
  }

  std::size_t scales_, angles_, max_order_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const scattering::Cascade> cascade_;
  mutable std::size_t height_ = 0, width_ = 0;  ///< The size for which cascade_ was made.
};

void register_components(Registrar& registrar) {
  registrar.add<Transform, Scattering>({
      .name = "scattering",
      .summary = "Wavelet scattering coefficients of images: averages of the moduli of wavelet "
                 "transforms. Nothing is fitted.",
      .reference = "Bruna and Mallat, 'Invariant scattering convolution networks', 2013; Oyallon "
                   "and Mallat 2015; for private training Tramer and Boneh 2021",
      .params =
          {
              param::integer("scales",
                             "J: wavelets are of J sizes, each twice the one before, and a "
                             "coefficient is an average over about 2^J pixels.")
                  .at_least(1)
                  .at_most(8)
                  .defaults_to(2),
              param::integer("angles", "L: directions of the wavelets in half a turn.")
                  .at_least(1)
                  .at_most(32)
                  .defaults_to(8),
              param::integer("max_order",
                             "1: moduli of wavelet transforms; 2: also moduli of the wavelet "
                             "transforms of these moduli.")
                  .at_least(1)
                  .at_most(2)
                  .defaults_to(2),
          },
  });
}

}  // namespace

PRIVGRAD_PLUGIN("privgrad.scattering", "0.1.0", "transform/scattering", register_components)
