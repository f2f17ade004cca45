// A dense layer on the processor, which works on whole batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cells.hpp"
#include "layers/step.hpp"

namespace privgrad::cpu {

/// An example's gradient is the product of two vectors, its inputs and its errors. Its cells are a
/// product of two vectors of integers, so the sum over examples is an integer matrix product.
class DenseStep final : public Step {
 public:
  DenseStep(const Dense& layer, const Shape& in, const Shape& out);

  const float* weights() const noexcept { return own_; }  // [outputs, inputs]
  /// Zeros if the layer has no biases.
  const float* biases() const noexcept {
    return has_biases_ ? own_ + inputs_ * outputs_ : zeros_.data();
  }

  void forward(std::size_t count, Values in, float* out, Scratch& scratch) const override;
  void backward(std::size_t count, Values in, const float* out, const float* delta, Below below,
                Scratch& scratch) const override;
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;

  bool works_on_batches() const override { return true; }
  std::size_t panel_width() const override { return inputs_; }
  void forward_batch(const WholeBatch& batch, const StepPass& pass, float* out) const override;
  void backward_batch(const WholeBatch& batch, const StepPass& pass, const float* out,
                      float* errors, float* below) const override;

  std::size_t kept_floats() const override { return (inputs_ + outputs_) / 2; }
  void allocate(StepPass& pass) const override;
  bool may_lengthen() const override { return true; }
  void make_cells(std::size_t pair, const bool* truncates, StepPass& pass,
                  Wide* squares) const override;
  void choose(std::span<const std::uint8_t> taken, StepPass& pass) const override;
  void undo_choice(std::span<const std::uint8_t> taken, StepPass& pass) const override;
  std::vector<Piece> pieces() const override;
  void add_cells(const Piece& piece, std::span<const std::uint8_t> taken, const StepPass& pass,
                 const Target& target) const override;

 private:
  /// The rounding of one example's numbers to integers.
  struct Roundings {
    Rounding of_inputs, of_units;
    Wide bias_squares = 0;
  };
  Roundings round_example(std::size_t row, bool truncates, const StepPass& pass) const;
  void add_products(const Piece& piece, const StepPass& pass, const Target& target) const;
  void add_biases(const Piece& piece, std::span<const std::uint8_t> taken, const StepPass& pass,
                  const Target& target) const;

  bool has_biases_;
  std::vector<float> zeros_;  // used for an absent example, and for absent biases
};

}  // namespace privgrad::cpu
