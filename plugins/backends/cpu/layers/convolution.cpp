// Convolutions: outputs, derivatives and gradients; convolution_cells.cpp has the exact part.
#include "layers/convolution.hpp"

#include <algorithm>

#include "chains.hpp"
#include "layers/kind.hpp"
#include "loops.hpp"

namespace privgrad::cpu {

std::unique_ptr<Step> step_of(const Conv2d& layer, const Place& place) {
  return std::make_unique<ConvStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Conv2d&, const Place&);

ConvStep::ConvStep(const Conv2d& layer, const Shape& in, const Shape& out)
    : Step(in, out),
      layer_(layer),
      height_(in[0]),
      width_(in[1]),
      depth_(channels_of(in)),
      rows_(out[0]),
      columns_(out[1]),
      places_(rows_ * columns_),
      patch_(element_count({layer.kernel, layer.kernel, depth_})),
      patches_are_image_(layer.kernel == 1 && layer.stride == 1 && layer.padding == 0),
      of_patches_(layer.channels, patch_),
      of_errors_(patch_, layer.channels) {
  parameter_count_ = element_count({layer.channels, patch_}) + bias_count();
  element_count({places_, patch_});
  zeros_.resize(layer.channels);
}

/// Calls body(beginning of a patch's row in the padded image, beginning in the patches) for every
/// place and row of the kernel.
template <class Body>
void ConvStep::for_each_patch_row(const Body& body) const {
  const std::size_t across = (width_ + 2 * layer_.padding) * depth_;  // floats in a padded row
  std::size_t element = 0;
  for (std::size_t i = 0; i < rows_; ++i) {
    for (std::size_t j = 0; j < columns_; ++j) {
      std::size_t pixel = i * layer_.stride * across + j * layer_.stride * depth_;
      for (std::size_t u = 0; u < layer_.kernel; ++u, pixel += across) {
        body(pixel, element);
        element += layer_.kernel * depth_;
      }
    }
  }
}

std::size_t ConvStep::padded_size() const {
  return (height_ + 2 * layer_.padding) * (width_ + 2 * layer_.padding) * depth_;
}

std::size_t ConvStep::padded_row(std::size_t row) const {
  return ((row + layer_.padding) * (width_ + 2 * layer_.padding) + layer_.padding) * depth_;
}

/// \returns the padded image; the image itself if there is no padding.
const float* ConvStep::with_padding(const float* image, std::vector<float>& padded) const {
  if (layer_.padding == 0) return image;
  padded.assign(padded_size(), 0.0f);
  for (std::size_t row = 0; row < height_; ++row) {
    std::copy_n(image + row * width_ * depth_, width_ * depth_, padded.data() + padded_row(row));
  }
  return padded.data();
}

void ConvStep::gather_patches(const float* image, float* patches) const {
  std::vector<float> padded;
  image = with_padding(image, padded);
  const std::size_t run = layer_.kernel * depth_;
  for_each_patch_row([&](std::size_t pixel, std::size_t element) {
    copy_short(image + pixel, run, patches + element);
  });
}

const float* ConvStep::patches_of(const float* image, Scratch& scratch) const {
  if (patches_are_image_) return image;
  float* const patches = at_least(scratch.patches, places_ * patch_);
  gather_patches(image, patches);
  return patches;
}

void ConvStep::add_patches(const float* patches, float* image) const {
  const std::size_t run = layer_.kernel * depth_;
  std::vector<float> padded;
  float* to = image;
  if (layer_.padding > 0) {
    padded.assign(padded_size(), 0.0f);
    to = padded.data();
  } else {
    std::fill_n(image, inputs_, 0.0f);
  }
  for_each_patch_row(
      [&](std::size_t pixel, std::size_t element) { add(patches + element, run, to + pixel); });
  for (std::size_t row = 0; row < height_ && layer_.padding > 0; ++row) {
    std::copy_n(to + padded_row(row), width_ * depth_, image + row * width_ * depth_);
  }
}

void ConvStep::prepare() {
  of_patches_.take_columns(weights());
  of_errors_.take_rows(weights());
}

void ConvStep::multiply_patches(const float* patches, float* out) const {
  multiply_chains(places_, {patches, patch_, 1}, of_patches_,
                  {.of_rows = nullptr, .of_columns = biases(), .at_product = false}, out,
                  channels());
}

void ConvStep::gradient_row(const float* patches, const float* delta, float* row) const {
  multiply_chains(channels(), patch_, places_, {delta, 1, channels()}, patches, patch_, {}, row,
                  patch_);
  sum_errors(delta, row + channels() * patch_);
}

void ConvStep::sum_errors(const float* delta, float* biases) const {
  std::fill_n(biases, bias_count(), 0.0f);
  for (std::size_t place = 0; place < places_; ++place) {
    add(delta + place * channels(), bias_count(), biases);
  }
}

void ConvStep::patches_backward(const float* delta, float* patches) const {
  multiply_chains(places_, {delta, channels(), 1}, of_errors_, {}, patches, patch_);
}

/// First pairs each pixel with the pixel that the next place sees at the same kernel position. Then
/// copies runs of these pairs, each up to the end of a tile of the operand.
void ConvStep::gather_place_pairs(const float* image, const Rounding& rounding, Scratch& scratch,
                                  std::uint32_t* inputs) const {
  image = with_padding(image, scratch.padded);
  const std::size_t size = padded_size();
  const std::size_t across = (width_ + 2 * layer_.padding) * depth_;
  const std::size_t next = layer_.stride * depth_;
  if (scratch.shifted.size() < size) scratch.shifted.resize(size);
  pair_with_next(image, size, next, rounding, scratch.shifted.data());
  const std::size_t run = layer_.kernel * depth_;
  const std::size_t pairs = place_pairs();
  std::size_t pair = 0;
  for (std::size_t i = 0; i < rows_; ++i) {
    for (std::size_t j = 0; j < columns_; j += 2, ++pair) {
      const std::uint32_t* from = scratch.shifted.data() + i * layer_.stride * across + j * next;
      std::size_t element = 0;
      for (std::size_t u = 0; u < layer_.kernel; ++u, from += across) {
        for (std::size_t at = 0; at < run;) {
          const std::size_t lane = element % kInputTile;
          const std::size_t some = std::min(run - at, kInputTile - lane);
          copy_short(from + at, some, inputs + (element - lane) * pairs + pair * kInputTile + lane);
          at += some;
          element += some;
        }
      }
    }
  }
}

void ConvStep::round_errors(const float* delta, const Rounding& rounding,
                            std::uint32_t* units) const {
  const std::size_t pairs = place_pairs();
  std::size_t pair = 0;
  for (std::size_t i = 0; i < rows_; ++i) {
    for (std::size_t j = 0; j < columns_; j += 2, ++pair) {
      const float* first = delta + (i * columns_ + j) * channels();
      const float* second = j + 1 < columns_ ? first + channels() : zeros_.data();
      round_pair_units(first, second, rounding, rounding, channels(), units + pair * kUnitTile,
                       pairs * kUnitTile);
    }
  }
}

void ConvStep::forward(std::size_t count, Values in, float* out, Scratch& scratch) const {
  for (std::size_t i = 0; i < count; ++i)
    multiply_patches(patches_of(in[0] + i * inputs_, scratch), out + i * outputs_);
}

void ConvStep::backward(std::size_t count, Values, const float*, const float* delta, Below below,
                        Scratch& scratch) const {
  float* patches = patches_are_image_ ? nullptr : at_least(scratch.patches, places_ * patch_);
  for (std::size_t i = 0; i < count; ++i) {
    float* const image = below[0] + i * inputs_;
    patches_backward(delta + i * outputs_, patches_are_image_ ? image : patches);
    if (!patches_are_image_) add_patches(patches, image);
  }
}

void ConvStep::gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                             std::size_t stride, Scratch& scratch) const {
  for (std::size_t i = 0; i < count; ++i)
    gradient_row(patches_of(in + i * inputs_, scratch), delta + i * outputs_, rows + i * stride);
}

}  // namespace privgrad::cpu
