// A convolution on the processor, and layers built from one: products over the places of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cells.hpp"
#include "chains.hpp"
#include "layers/step.hpp"

namespace privgrad::cpu {

/// A convolution as a matrix product. One example's image becomes a matrix of `places` rows, one
/// for each place of the output, with the `patch` pixels that this place sees.
///
/// An example's weight gradient is kept as int16 numbers (place_sums.hpp), the gradient of the
/// biases as floats; both are truncated when they are used.
class ConvStep final : public Step {
 public:
  ConvStep(const Conv2d& layer, const Shape& in, const Shape& out);

  std::size_t places() const noexcept { return places_; }
  std::size_t patch() const noexcept { return patch_; }
  std::size_t channels() const noexcept { return layer_.channels; }
  const float* weights() const noexcept { return own_; }  // [channels, patch]
  std::size_t bias_count() const noexcept { return layer_.no_bias ? 0 : layer_.channels; }
  /// Returns null if there are no biases.
  const float* biases() const noexcept {
    return layer_.no_bias ? nullptr : own_ + layer_.channels * patch_;
  }

  /// \param patches  out: [places, patch].
  void gather_patches(const float* image, float* patches) const;

  /// Computes one example's outputs, [places, channels], from its patches, after prepare().
  void multiply_patches(const float* patches, float* out) const;

  /// Computes one example's gradient, [parameter_count()], from its patches and delta.
  void gradient_row(const float* patches, const float* delta, float* row) const;

  /// Computes one example's gradient of the biases, [bias_count()], the sum of its delta over
  /// places.
  void sum_errors(const float* delta, float* biases) const;

  /// Computes the derivatives with respect to one example's patches from the example's delta.
  void patches_backward(const float* delta, float* patches) const;

  /// Returns the number of pairs of neighbouring places in rows of the output; in rows of odd
  /// length, the last pair has one place.
  std::size_t place_pairs() const noexcept { return rows_ * ((columns_ + 1) / 2); }

  /// Writes the patches of pairs of places as integers.
  /// \param inputs  out: an operand of products (cells.hpp), of place_pairs() pairs.
  void gather_place_pairs(const float* image, const Rounding& rounding, Scratch& scratch,
                          std::uint32_t* inputs) const;

  /// Writes the derivatives at pairs of places as integers.
  /// \param units  out: an operand of products (cells.hpp), of place_pairs() pairs.
  void round_errors(const float* delta, const Rounding& rounding, std::uint32_t* units) const;

  /// The transpose of gather_patches(): adds each number of a patch to the pixel it came from.
  void add_patches(const float* patches, float* image) const;

  void prepare() override;
  std::size_t copied_floats() const override { return of_patches_.size() + of_errors_.size(); }
  void forward(std::size_t count, Values in, float* out, Scratch& scratch) const override;
  void backward(std::size_t count, Values in, const float* out, const float* delta, Below below,
                Scratch& scratch) const override;
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;

  std::size_t kept_floats() const override { return parameter_count_ / 2; }
  void allocate(StepPass& pass) const override;
  void find_norms(std::size_t first, std::size_t count, const float* delta, StepPass& pass,
                  Scratch& scratch) const override;
  void make_cells(std::size_t pair, const bool* truncates, StepPass& pass,
                  Wide* squares) const override;
  void choose(std::span<const std::uint8_t> taken, StepPass& pass) const override;
  std::vector<Piece> pieces() const override;
  void add_cells(const Piece& piece, std::span<const std::uint8_t> taken, const StepPass& pass,
                 const Target& target) const override;

 private:
  std::size_t weight_count() const { return layer_.channels * patch_; }
  /// Returns the patches of one example, which may be in the scratch.
  const float* patches_of(const float* image, Scratch& scratch) const;
  template <class Body>
  void for_each_patch_row(const Body& body) const;
  const float* with_padding(const float* image, std::vector<float>& padded) const;
  std::size_t padded_size() const;                // floats of the image with its padding
  std::size_t padded_row(std::size_t row) const;  // beginning of an image row in that image

  Conv2d layer_;
  std::size_t height_, width_, depth_;  // extents of the input
  std::size_t rows_, columns_;          // extents of the output
  std::size_t places_, patch_;
  bool patches_are_image_;
  Panels of_patches_, of_errors_;  // the weights as factors of patches and of errors
  std::vector<float> zeros_;       // [channels]
};

}  // namespace privgrad::cpu
