// The layers of a network on the processor: forward and backward for examples side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cells.hpp"
#include "loops.hpp"
#include "privgrad/network.hpp"

namespace privgrad::cpu {

/// Memory of a task, reused by the next.
struct Scratch {
  std::vector<float> panel, padded, patches, scaled, projected, one, other;
  std::vector<std::uint32_t> shifted, place_inputs, place_units;
  std::vector<std::int32_t> sums;
};

inline float* at_least(std::vector<float>& memory, std::size_t size) {
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

/// One layer, for examples side by side: in is [count, inputs], out and delta [count, outputs],
/// below [count, inputs], where delta and below are the loss's derivatives by out and in.
///
/// An example's results depend on it alone, bit for bit: matrix products are chains (chains.hpp).
/// Threads: const functions may run concurrently, after prepare(), each with a scratch of its own.
class Step {
 public:
  Step(const Shape& in, const Shape& out);
  virtual ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  std::size_t inputs() const noexcept { return inputs_; }
  std::size_t outputs() const noexcept { return outputs_; }
  std::size_t parameter_count() const noexcept { return parameter_count_; }
  std::size_t offset() const noexcept { return offset_; }
  void place_at(std::size_t offset) noexcept { offset_ = offset; }

  /// \param own  the step's parameters; they stay there until the next load().
  virtual void load(const float* own) noexcept { own_ = own; }

  /// Whether out may be in: then backward() does not need the input.
  virtual bool works_in_place() const { return false; }

  /// Whether a step in place may follow: backward() does not need the output.
  virtual bool gives_output_away() const { return true; }

  /// Updates the copies of parameters that products need.
  virtual void prepare() {}

  virtual void forward(std::size_t count, const float* in, float* out, Scratch& scratch) const = 0;

  /// \returns the place of the derivatives by in: below, or delta, which may be overwritten.
  virtual float* backward(std::size_t count, const float* in, const float* out, float* delta,
                          float* below, Scratch& scratch) const = 0;

  /// Writes each example's gradient to rows[0], rows[stride], .., parameter_count() floats each.
  virtual void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                             std::size_t stride, Scratch& scratch) const;

 protected:
  std::size_t inputs_, outputs_;
  std::size_t parameter_count_ = 0;
  const float* own_ = nullptr;

 private:
  std::size_t offset_ = 0;
};

class DenseStep final : public Step {
 public:
  DenseStep(const Dense& layer, const Shape& in, const Shape& out);
  const float* weights() const noexcept { return own_; }  // [outputs, inputs]
  const float* biases() const noexcept { return own_ + inputs_ * outputs_; }
  void forward(std::size_t count, const float* in, float* out, Scratch& scratch) const override;
  float* backward(std::size_t count, const float* in, const float* out, float* delta, float* below,
                  Scratch& scratch) const override;
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;
};

class ActivationStep final : public Step {
 public:
  ActivationStep(const Activation& layer, const Shape& in, const Shape& out)
      : Step(in, out), kind_(layer.kind) {}
  ActivationKind kind() const noexcept { return kind_; }
  bool works_in_place() const override { return true; }
  bool gives_output_away() const override { return false; }
  void forward(std::size_t count, const float* in, float* out, Scratch& scratch) const override;
  float* backward(std::size_t count, const float* in, const float* out, float* delta, float* below,
                  Scratch& scratch) const override;

 private:
  ActivationKind kind_;
};

class FlattenStep final : public Step {
 public:
  FlattenStep(const Flatten&, const Shape& in, const Shape& out) : Step(in, out) {}
  bool works_in_place() const override { return true; }
  bool gives_output_away() const override { return false; }
  void forward(std::size_t count, const float* in, float* out, Scratch& scratch) const override;
  float* backward(std::size_t count, const float* in, const float* out, float* delta, float* below,
                  Scratch& scratch) const override;
};

/// A convolution as a matrix product. One example's image becomes a matrix of `places` rows, one
/// for each place of the output, with the `patch` pixels that are seen from there.
class ConvStep final : public Step {
 public:
  ConvStep(const Conv2d& layer, const Shape& in, const Shape& out);

  std::size_t places() const noexcept { return places_; }
  std::size_t patch() const noexcept { return patch_; }
  std::size_t channels() const noexcept { return layer_.channels; }
  const float* weights() const noexcept { return own_; }  // [channels, patch]
  const float* biases() const noexcept { return own_ + layer_.channels * patch_; }

  /// \param patches  out: [places, patch].
  void gather_patches(const float* image, float* patches) const;

  /// One example's outputs from its patches, [places, channels]; after prepare().
  void multiply_patches(const float* patches, float* out) const;

  /// One example's gradient, [parameter_count()], from its patches and delta.
  void gradient_row(const float* patches, const float* delta, float* row) const;

  /// One example's gradient of the biases, [channels()], the sum of its delta over the places.
  void sum_errors(const float* delta, float* biases) const;

  /// The derivatives by one example's patches, from its delta.
  void patches_backward(const float* delta, float* patches) const;

  /// Pairs of neighbouring places in a row of the output; where the row has an odd number of them,
  /// the last has one.
  std::size_t place_pairs() const noexcept { return rows_ * ((columns_ + 1) / 2); }

  /// The patches of pairs of places as whole numbers.
  /// \param inputs  out: an operand of products (cells.hpp), of place_pairs() pairs.
  void gather_place_pairs(const float* image, const Rounding& rounding, Scratch& scratch,
                          std::uint32_t* inputs) const;

  /// The derivatives at pairs of places as whole numbers.
  /// \param units  out: an operand of products (cells.hpp), of place_pairs() pairs.
  void round_errors(const float* delta, const Rounding& rounding, std::uint32_t* units) const;

  /// The transpose of gather_patches(): adds each patch to the pixels that it was taken from.
  void add_patches(const float* patches, float* image) const;

  void prepare() override;
  void forward(std::size_t count, const float* in, float* out, Scratch& scratch) const override;
  float* backward(std::size_t count, const float* in, const float* out, float* delta, float* below,
                  Scratch& scratch) const override;
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;

 private:
  template <class Body>
  void for_each_patch_row(const Body& body) const;
  const float* with_padding(const float* image, std::vector<float>& padded) const;
  std::size_t padded_size() const;                // floats of the image with its padding
  std::size_t padded_row(std::size_t row) const;  // where a row of the image begins in it

  Conv2d layer_;
  std::size_t height_, width_, depth_;  // of the input
  std::size_t rows_, columns_;          // of the output
  std::size_t places_, patch_;
  std::vector<float> by_patch_;  // the weights, [patch, channels]
  std::vector<float> zeros_;     // [channels]
};

class PoolStep final : public Step {
 public:
  PoolStep(const Pool& layer, const Shape& in, const Shape& out);
  bool gives_output_away() const override { return false; }
  void forward(std::size_t count, const float* in, float* out, Scratch& scratch) const override;
  float* backward(std::size_t count, const float* in, const float* out, float* delta, float* below,
                  Scratch& scratch) const override;

 private:
  Windows windows() const;
  void average_row(const float* corner, float* out) const;
  void share_row(const float* top, float* corner) const;

  Pool layer_;
  std::size_t width_, depth_;
  std::size_t rows_, columns_;
  std::vector<std::size_t> offsets_;  // of a window's pixels, row by row
};

/// Group and layer normalisation: sets of places and channels with a mean and a variance of their
/// own.
class NormStep final : public Step {
 public:
  NormStep(const GroupNorm& layer, const Shape& in, const Shape& out);
  NormStep(const LayerNorm& layer, const Shape& in, const Shape& out);
  void forward(std::size_t count, const float* in, float* out, Scratch& scratch) const override;
  float* backward(std::size_t count, const float* in, const float* out, float* delta, float* below,
                  Scratch& scratch) const override;
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;

 private:
  /// Calls body(element, channel, normalised value) for each element of each set of one example,
  /// and before a set's first element start(places, channels, 1 / deviation).
  template <class Start, class Body>
  void for_each_set(const float* in, const Start& start, const Body& body) const;

  std::size_t places_, channels_;
  std::size_t places_per_set_, channels_per_set_;
  double epsilon_;
};

class EmbeddingStep final : public Step {
 public:
  EmbeddingStep(const Embedding& layer, const Shape& in, const Shape& out);
  void forward(std::size_t count, const float* in, float* out, Scratch& scratch) const override;
  float* backward(std::size_t count, const float* in, const float* out, float* delta, float* below,
                  Scratch& scratch) const override;
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;

  /// Calls body(first element of the row of the table, its gradient [width]) once for each
  /// different token of one example, in their order.
  /// \returns whether all of them are tokens; body is not called when not.
  bool for_each_row(const float* in, const float* delta,
                    const std::function<void(std::size_t, std::span<const float>)>& body) const;

 private:
  bool is_token(float value) const;
  Embedding layer_;
};

/// Adds the input of an earlier step, as it is or projected. The owner of that input calls
/// add_earlier() and add_backward(); forward() and backward() are for the direct input.
class ShortcutStep final : public Step {
 public:
  /// \param earlier  the shape of the input of the step where the shortcut begins.
  ShortcutStep(const Shortcut& layer, const Shape& earlier, const Shape& in);

  /// nullptr: the earlier input is added as it is.
  const ConvStep* projection() const noexcept { return projection_.get(); }

  void load(const float* own) noexcept override;
  void prepare() override;
  bool works_in_place() const override { return true; }

  /// Passes the direct input on; add_earlier() has to follow.
  void forward(std::size_t count, const float* in, float* out, Scratch& scratch) const override;
  /// \param earlier  [count, elements of the earlier shape].
  void add_earlier(std::size_t count, const float* earlier, float* out, Scratch& scratch) const;

  float* backward(std::size_t count, const float* in, const float* out, float* delta, float* below,
                  Scratch& scratch) const override;
  /// Adds to `earlier` the derivatives by the value that was added, of the same shape.
  void add_backward(std::size_t count, const float* delta, float* earlier, Scratch& scratch) const;
  /// \param earlier  the value that was added; the rest as gradient_rows().
  void projection_rows(std::size_t count, const float* earlier, const float* delta, float* rows,
                       std::size_t stride, Scratch& scratch) const;

 private:
  std::unique_ptr<ConvStep> projection_;
};

/// The shortcuts of a network, for the code that keeps values and derivatives.
struct Shortcuts {
  explicit Shortcuts(const Network& network);

  /// The step whose input shortcut s adds; s itself where step s is no shortcut.
  std::vector<std::size_t> source_of;
  std::vector<bool> is_source;  ///< For each step.
};

/// \param entering  the shapes that enter the layers up to this one.
/// \throws ConfigError naming the layer if it is one that only its model can execute.
std::unique_ptr<Step> make_step(const Layer& layer, std::size_t index,
                                std::span<const Shape> entering, const Shape& out);

}  // namespace privgrad::cpu
