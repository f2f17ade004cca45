// The largest value, or the mean, of each window of an image.
#include <algorithm>
#include <vector>

#include "layers/kind.hpp"
#include "loops.hpp"

namespace privgrad::cpu {
namespace {

class PoolStep final : public Step {
 public:
  PoolStep(const Pool& layer, const Shape& in, const Shape& out);
  bool gives_output_away() const override { return false; }
  void forward(std::size_t count, Values in, float* out, Scratch& scratch) const override;
  void backward(std::size_t count, Values in, const float* out, const float* delta, Below below,
                Scratch& scratch) const override;

 private:
  Windows windows() const;
  void average_row(const float* corner, float* out) const;
  void share_row(const float* top, float* corner) const;

  Pool layer_;
  std::size_t width_, depth_;
  std::size_t rows_, columns_;
  std::vector<std::size_t> offsets_;  // offsets of a window's pixels, row by row
};

PoolStep::PoolStep(const Pool& layer, const Shape& in, const Shape& out)
    : Step(in, out),
      layer_(layer),
      width_(in[1]),
      depth_(channels_of(in)),
      rows_(out[0]),
      columns_(out[1]) {
  for (std::size_t row = 0; row < layer_.window; ++row) {
    for (std::size_t column = 0; column < layer_.window; ++column) {
      offsets_.push_back((row * width_ + column) * depth_);
    }
  }
}

Windows PoolStep::windows() const {
  return {.offsets = offsets_.data(),
          .places = offsets_.size(),
          .columns = columns_,
          .step = layer_.stride * depth_,
          .depth = depth_};
}

void PoolStep::forward(std::size_t count, Values values, float* out, Scratch&) const {
  const float* in = values[0];
  for (std::size_t i = 0; i < count; ++i, in += inputs_) {
    for (std::size_t row = 0; row < rows_; ++row, out += columns_ * depth_) {
      const float* corner = in + row * layer_.stride * width_ * depth_;
      if (layer_.kind == PoolKind::max) {
        largest_in_windows(windows(), corner, out);
      } else {
        average_row(corner, out);
      }
    }
  }
}

void PoolStep::average_row(const float* corner, float* out) const {
  const auto area = static_cast<float>(offsets_.size());
  for (std::size_t column = 0; column < columns_; ++column, corner += layer_.stride * depth_) {
    copy_short(corner, depth_, out);
    for (std::size_t place = 1; place < offsets_.size(); ++place) {
      add(corner + offsets_[place], depth_, out);
    }
    for (std::size_t k = 0; k < depth_; ++k) *out++ /= area;
  }
}

void PoolStep::backward(std::size_t count, Values in, const float* out, const float* delta,
                        Below below, Scratch&) const {
  std::fill_n(below[0], count * inputs_, 0.0f);
  std::vector<int> taken(depth_);
  const float* top = delta;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t row = 0; row < rows_; ++row) {
      const std::size_t corner = i * inputs_ + row * layer_.stride * width_ * depth_;
      if (layer_.kind == PoolKind::max) {
        hand_down_windows(windows(), in[0] + corner, out, top, below[0] + corner, taken.data());
      } else {
        share_row(top, below[0] + corner);
      }
      out += columns_ * depth_;
      top += columns_ * depth_;
    }
  }
}

void PoolStep::share_row(const float* top, float* corner) const {
  const float share = 1.0f / static_cast<float>(offsets_.size());
  for (std::size_t column = 0; column < columns_; ++column, top += depth_) {
    for (const std::size_t offset : offsets_) {
      cpu::add_scaled(share, top, depth_, corner + column * layer_.stride * depth_ + offset);
    }
  }
}

}  // namespace

std::unique_ptr<Step> step_of(const Pool& layer, const Place& place) {
  return std::make_unique<PoolStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const Pool&, const Place&);

}  // namespace privgrad::cpu
