// A layer that shares its parameters with other layers.
#pragma once

#include <cstddef>
#include <memory>

#include "layers/kept_rows.hpp"
#include "layers/make_step.hpp"

namespace privgrad::cpu {

/// One of several layers that share parameters. The parameters' gradient is the sum of all these
/// layers' gradients, added in float32 in the order of the backward pass. The first layer, which
/// owns the parameters, stores the sum in its row, so the gradient is clipped and rounded as a
/// whole.
class SharedStep final : public KeptRows {
 public:
  /// \param layer  the layer, made as if its parameters were its own.
  /// \param adds  whether a later layer has already written its gradient, to which this layer adds.
  SharedStep(std::unique_ptr<Step> layer, const Place& place, bool adds);

  bool gives_output_away() const override { return layer_->gives_output_away(); }
  std::size_t scratch_floats() const override { return adds_ ? parameter_count_ : 0; }
  void load(const float* own) noexcept override { layer_->load(own); }
  void prepare() override { layer_->prepare(); }
  std::size_t copied_floats() const override { return layer_->copied_floats(); }
  void forward(std::size_t count, Values in, float* out, Scratch& scratch) const override {
    layer_->forward(count, in, out, scratch);
  }
  void backward(std::size_t count, Values in, const float* out, const float* delta, Below below,
                Scratch& scratch) const override {
    layer_->backward(count, in, out, delta, below, scratch);
  }
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;

 private:
  std::unique_ptr<Step> layer_;
  bool adds_;
};

}  // namespace privgrad::cpu
