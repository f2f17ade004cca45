#include "privgrad/train/moving_average.hpp"

#include <algorithm>

namespace privgrad::core {

void MovingAverage::add(std::span<const float> parameters) {
  const auto t = static_cast<double>(++steps_);
  const double decay = std::min(decay_, (1.0 + t) / (10.0 + t));
  for (std::size_t i = 0; i < values_.size(); ++i)
    values_[i] = decay * values_[i] + (1.0 - decay) * static_cast<double>(parameters[i]);
}

std::vector<float> MovingAverage::parameters() const {
  std::vector<float> rounded(values_.size());
  std::ranges::transform(values_, rounded.begin(),
                         [](double value) { return static_cast<float>(value); });
  return rounded;
}

void MovingAverage::save(StateWriter& out) const {
  out.begin("average");
  out.word(steps_);
  out.array(values_);
}

void MovingAverage::restore(StateReader& in) {
  in.begin("average");
  steps_ = in.word();
  values_ = in.array<double>(values_.size());
}

}  // namespace privgrad::core
