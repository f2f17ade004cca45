// The operands of a convolution's products.
#pragma once

#include "products.hpp"

namespace privgrad::cuda {

/// Divides numbers below 2^32 by a number that is known when a kernel is launched.
struct Divisor {
  uint32_t value = 1;
  uint64_t inverse = 0;

  Divisor() = default;
  explicit Divisor(uint64_t divisor)
      : value(static_cast<uint32_t>(divisor)), inverse(~uint64_t{0} / divisor + 1) {}

  /// Returns floor(number / value), exactly (Lemire, Kaser and Kurz 2019).
  PRIVGRAD_HD uint32_t quotient(uint32_t number) const {
    const uint64_t low = (inverse & 0xffffffffu) * number >> 32;
    return value == 1 ? number : static_cast<uint32_t>(((inverse >> 32) * number + low) >> 32);
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

/// The pixels that places see, as a table. One side of the table is the places of an image, the
/// other is the elements of a patch, and a product can add over either side.
struct Pixels {
  /// What a place, or an element of a patch, contributes to a pixel's row, column and index.
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

  /// Returns the first pixel of place t.
  PRIVGRAD_HD Part of_place(uint32_t t) const {
    const uint32_t y = by_columns.quotient(t);
    const auto row = static_cast<int32_t>(y * conv.stride) - static_cast<int32_t>(conv.padding);
    const auto column = static_cast<int32_t>((t - y * by_columns.value) * conv.stride) -
                        static_cast<int32_t>(conv.padding);
    return {(int64_t{row} * static_cast<int64_t>(conv.width) + column) *
                static_cast<int64_t>(conv.depth),
            row, column};
  }
  /// Returns what element p of a patch contributes, relative to the patch's first pixel.
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

/// The operand whose row i is place i % places of image i / places; k runs along the patch.
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

/// The operand whose batch e is image e; column p is an element of the patch, k runs over places.
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

/// Row i is pixel i / examples of example i % examples, so that a tile's rows belong to only a few
/// pixels. Each chain belongs to one kernel element, the last element first, so the chains of a
/// pixel follow the order of the places that see it. k runs over the channels of a place's errors.
struct SeenErrors {
  static constexpr bool kByInner = true;
  struct Place {
    int64_t begin;  // start of the place's errors; below 0 if no place sees the pixel
    PRIVGRAD_HD bool is_there() const { return begin >= 0; }
  };
  /// The data that all chains of a row share, stored so that divisions are made only once.
  struct Origin {
    int64_t errors;        // start of the errors of the row's example
    uint32_t row, column;  // the row's pixel, in the padded image
  };
  /// The first and the last pixel of a tile's rows.
  struct Ends {
    Origin first, last;
    bool are_close;  // no pixel lies between the two
  };
  const float* errors;
  Convolution conv;
  uint64_t examples;
  Divisor by_width, by_kernel, by_stride;

  SeenErrors(const float* from, const Convolution& of, uint64_t count)
      : errors(from),
        conv(of),
        examples(count),
        by_width(of.width),
        by_kernel(of.kernel),
        by_stride(of.stride) {}

  PRIVGRAD_HD Origin begin(uint64_t i) const {
    const auto pixel = static_cast<uint32_t>(i / examples);
    const uint32_t row = by_width.quotient(pixel);
    const auto padding = static_cast<uint32_t>(conv.padding);
    return {static_cast<int64_t>((i - pixel * examples) * conv.outputs()), row + padding,
            pixel - row * by_width.value + padding};
  }
  PRIVGRAD_HD Ends ends(uint64_t top, uint32_t rows) const {
    const uint64_t last = top + rows - 1;
    return {begin(top), begin(last), last / examples - top / examples < 2};
  }
  PRIVGRAD_HD Place locate(const Origin& origin, uint32_t chain) const {
    const int64_t place = place_of(origin, chain);
    return {place < 0 ? place : origin.errors + place * static_cast<int64_t>(conv.channels)};
  }
  PRIVGRAD_HD uint32_t at(uint32_t channel) const { return channel; }
  PRIVGRAD_HD Element find(Place place, uint32_t channel) const {
    return {errors + (place.is_there() ? place.begin + channel : 0), place.is_there()};
  }
  /// Whether no row of a tile has the chain; false too if the rows span more than two pixels.
  PRIVGRAD_HD bool skips(const Ends& ends, uint32_t chain) const {
    return ends.are_close && place_of(ends.first, chain) < 0 && place_of(ends.last, chain) < 0;
  }
  PRIVGRAD_HD uint64_t result_of(uint64_t i) const {
    return i % examples * conv.inputs() + i / examples * conv.depth;
  }

 private:
  /// Returns the place that sees a pixel through the chain's kernel element; below 0 if none does.
  PRIVGRAD_HD int64_t place_of(const Origin& origin, uint32_t chain) const {
    const uint32_t element = by_kernel.value * by_kernel.value - 1 - chain;
    const uint32_t u = by_kernel.quotient(element);
    // Numbers of places before the first place wrap around to large numbers.
    const uint32_t row = origin.row - u;
    const uint32_t column = origin.column - (element - u * by_kernel.value);
    const uint32_t y = by_stride.quotient(row), x = by_stride.quotient(column);
    if (y >= conv.rows || x >= conv.columns || y * by_stride.value != row ||
        x * by_stride.value != column)
      return -1;
    const uint32_t place = y * static_cast<uint32_t>(conv.columns) + x;
    return place;
  }
};

/// The other operand: column d is channel d of a chain's kernel element; k runs over the channels.
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
