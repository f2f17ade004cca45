// A layer whose parameters another layer uses, too.
#pragma once

#include <cstddef>
#include <memory>

#include "layers/kept_rows.hpp"
#include "layers/make_step.hpp"

namespace privgrad::cpu {

/// One of several layers with the same parameters. Their gradient is the sum of the gradients of
/// all these layers, added in float32 in the order of the backward pass. The sum is in the row that
/// the first layer, the owner of the parameters, stores, so the whole gradient is clipped and
/// rounded.
class SharedStep final : public KeptRows {
 public:
  /// \param layer  the layer as if its parameters were its own.
  /// \param adds  whether a later layer has already written its gradient.
  SharedStep(std::unique_ptr<Step> layer, const Place& place, bool adds);

  bool gives_output_away() const override { return layer_->gives_output_away(); }
  std::size_t scratch_floats() const override { return adds_ ? parameter_count_ : 0; }
  void load(const float* own) noexcept override { layer_->load(own); }
  void prepare() override { layer_->prepare(); }
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
