#include "layers/shared.hpp"

#include <utility>

#include "loops.hpp"

namespace privgrad::cpu {

SharedStep::SharedStep(std::unique_ptr<Step> layer, const Place& place, bool adds)
    : KeptRows(place.in(), place.out), layer_(std::move(layer)), adds_(adds) {
  parameter_count_ = layer_->parameter_count();
}

void SharedStep::gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                               std::size_t stride, Scratch& scratch) const {
  if (!adds_) return layer_->gradient_rows(count, in, delta, rows, stride, scratch);
  float* const own = at_least(scratch.shared, parameter_count_);
  for (std::size_t i = 0; i < count; ++i) {
    layer_->gradient_rows(1, in + i * inputs_, delta + i * outputs_, own, parameter_count_,
                          scratch);
    add(own, parameter_count_, rows + i * stride);
  }
}

}  // namespace privgrad::cpu
