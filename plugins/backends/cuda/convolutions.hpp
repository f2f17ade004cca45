// The operands of a convolution's products.
#pragma once

#include "products.hpp"

namespace privgrad::cuda {

/// Divides numbers below 2^32 by one that is known when a kernel is launched.
struct Divisor {
  uint32_t value = 1;
  uint64_t inverse = 0;

  Divisor() = default;
  explicit Divisor(uint64_t divisor)
      : value(static_cast<uint32_t>(divisor)), inverse(~uint64_t{0} / divisor + 1) {}

  /// floor(number / value), exactly (Lemire, Kaser and Kurz 2019).
  PRIVGRAD_HD uint32_t quotient(uint32_t number) const {
    return value == 1 ? number : static_cast<uint32_t>(product_of(inverse, number).high);
  }
};

/// A convolution over images [height, width, depth], as network.hpp defines it. Its images with
/// their padding, and its outputs, have fewer than 2^31 elements.
struct Convolution {
  uint64_t height, width, depth;  // the extents of the input
  uint64_t rows, columns;         // the extents of the output
  uint64_t channels, kernel, stride, padding;

  PRIVGRAD_HD uint64_t inputs() const { return height * width * depth; }
  PRIVGRAD_HD uint64_t places() const { return rows * columns; }
  PRIVGRAD_HD uint64_t patch() const { return kernel * kernel * depth; }
  PRIVGRAD_HD uint64_t outputs() const { return places() * channels; }
};

/// The pixels that places see. Places of an image and elements of a patch are the two sides of the
/// same table, so either can be what a product adds over.
struct Pixels {
  /// The part that a place or an element of a patch has in a pixel's row, column and index.
  struct Part {
    int64_t index;
    int32_t row, column;
  };
  const float* images;
  Convolution conv;
  Divisor by_columns, by_run, by_depth;

  Pixels(const float* from, const Convolution& of)
      : images(from),
        conv(of),
        by_columns(of.columns),
        by_run(of.kernel * of.depth),
        by_depth(of.depth) {}

  /// The first pixel of place t.
  PRIVGRAD_HD Part of_place(uint32_t t) const {
    const uint32_t y = by_columns.quotient(t);
    const auto row = static_cast<int32_t>(y * conv.stride) - static_cast<int32_t>(conv.padding);
    const auto column = static_cast<int32_t>((t - y * by_columns.value) * conv.stride) -
                        static_cast<int32_t>(conv.padding);
    return {(int64_t{row} * static_cast<int64_t>(conv.width) + column) *
                static_cast<int64_t>(conv.depth),
            row, column};
  }
  /// Element p of a patch, from its first pixel on.
  PRIVGRAD_HD Part of_patch(uint32_t p) const {
    const uint32_t u = by_run.quotient(p), rest = p - u * by_run.value;
    return {static_cast<int64_t>(u * conv.width * conv.depth + rest), static_cast<int32_t>(u),
            static_cast<int32_t>(by_depth.quotient(rest))};
  }
  PRIVGRAD_HD Element find(const Part& place, const Part& patch) const {
    const auto row = static_cast<uint32_t>(place.row + patch.row);
    const auto column = static_cast<uint32_t>(place.column + patch.column);
    // Rows and columns before the image wrap around.
    const bool is_there = row < conv.height && column < conv.width;
    return {images + (is_there ? place.index + patch.index : 0), is_there};
  }
};

/// Row i is place i % places of image i / places; k: along the patch.
struct Patches : Pixels {
  static constexpr bool kByInner = true;
  using Place = Part;
  using Pixels::Pixels;

  PRIVGRAD_HD Place locate(uint64_t, uint32_t, uint64_t i) const {
    const uint64_t image = i / conv.places();
    Part part = of_place(static_cast<uint32_t>(i - image * conv.places()));
    part.index += static_cast<int64_t>(image * conv.inputs());
    return part;
  }
  PRIVGRAD_HD Part at(uint32_t p) const { return of_patch(p); }
};

/// Batch e is image e; its column p is an element of the patch, k: the places.
struct PatchColumns : Pixels {
  static constexpr bool kByInner = false;
  using Place = Part;
  using Pixels::Pixels;

  PRIVGRAD_HD Place locate(uint64_t image, uint32_t, uint64_t p) const {
    Part part = of_patch(static_cast<uint32_t>(p));
    part.index += static_cast<int64_t>(image * conv.inputs());
    return part;
  }
  PRIVGRAD_HD Part at(uint32_t t) const { return of_place(t); }
};

/// Row i is pixel i / examples of example i % examples, so that the rows of a tile have the same
/// few pixels; each chain is one of the places that see a pixel, in order, and so one element of the
/// kernel, backwards; k: the channels of that place's error.
struct SeenErrors {
  static constexpr bool kByInner = true;
  struct Place {
    int64_t begin;  // of the place's errors; below 0 if no place sees the pixel there
    PRIVGRAD_HD bool is_there() const { return begin >= 0; }
  };
  const float* errors;
  Convolution conv;
  uint64_t examples;

  PRIVGRAD_HD Place locate(uint64_t, uint32_t chain, uint64_t i) const {
    const int64_t place = place_of(static_cast<uint32_t>(i / examples), chain);
    const auto own = static_cast<int64_t>(i % examples * conv.outputs());
    return {place < 0 ? place : own + place * static_cast<int64_t>(conv.channels)};
  }
  PRIVGRAD_HD uint32_t at(uint32_t channel) const { return channel; }
  PRIVGRAD_HD Element find(Place place, uint32_t channel) const {
    return {errors + (place.is_there() ? place.begin + channel : 0), place.is_there()};
  }
  /// Whether none of these rows has the chain; false, too, for rows of more than two pixels.
  PRIVGRAD_HD bool skips(uint64_t top, uint32_t rows, uint32_t chain) const {
    const uint64_t first = top / examples, last = (top + rows - 1) / examples;
    return last - first < 2 && place_of(static_cast<uint32_t>(first), chain) < 0 &&
           place_of(static_cast<uint32_t>(last), chain) < 0;
  }
  PRIVGRAD_HD uint64_t result_of(uint64_t i) const {
    return i % examples * conv.inputs() + i / examples * conv.depth;
  }

 private:
  /// The place that sees a pixel by the chain's element of the kernel; below 0 if there is none.
  PRIVGRAD_HD int64_t place_of(uint32_t pixel, uint32_t chain) const {
    const auto kernel = static_cast<uint32_t>(conv.kernel),
               width = static_cast<uint32_t>(conv.width);
    const auto padding = static_cast<uint32_t>(conv.padding);
    const auto stride = static_cast<uint32_t>(conv.stride);
    const uint32_t element = kernel * kernel - 1 - chain;
    // Places before the first wrap around.
    const uint32_t row = pixel / width + padding - element / kernel;
    const uint32_t column = pixel % width + padding - element % kernel;
    const uint32_t y = row / stride, x = column / stride;
    if (y >= conv.rows || x >= conv.columns || y * stride != row || x * stride != column) return -1;
    return static_cast<int64_t>(y * conv.columns + x);
  }
};

/// The other operand: column d of a chain's element of the kernel; k: the channels.
struct ElementWeights {
  static constexpr bool kByInner = false;
  using Place = const float*;
  const float* weights;
  Convolution conv;

  PRIVGRAD_HD Place locate(uint64_t, uint32_t chain, uint64_t d) const {
    return weights + (conv.kernel * conv.kernel - 1 - chain) * conv.depth + d;
  }
  PRIVGRAD_HD uint64_t at(uint32_t channel) const { return channel * conv.patch(); }
  PRIVGRAD_HD Element find(Place place, uint64_t at) const { return {place + at}; }
};

}  // namespace privgrad::cuda
