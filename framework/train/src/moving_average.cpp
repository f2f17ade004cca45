#include "privgrad/train/moving_average.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace privgrad::core {

void MovingAverage::begin(RunModel& model) {
  std::ranges::copy(model.parameters(), values_.begin());
}

bool MovingAverage::after_step(std::uint64_t /*steps*/, RunModel& model) {
  const std::vector<float>& parameters = model.parameters();
  const auto t = static_cast<double>(++steps_);
  const double decay = std::min(decay_, (1.0 + t) / (10.0 + t));
  for (std::size_t i = 0; i < values_.size(); ++i)
    values_[i] = decay * values_[i] + (1.0 - decay) * static_cast<double>(parameters[i]);
  return false;
}

void MovingAverage::choose_model(RunModel& model) {
  if (!is_kept_) return;
  model.report_once();
  model.load(parameters());
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

void MovingAverage::add_to_metrics(MetricsLine& line, std::uint64_t /*steps*/,
                                   RunModel& model) const {
  std::vector<float> last = model.parameters();
  model.load(parameters());
  line.ema = model.measure();
  model.load(std::move(last));
}

void MovingAverage::add_to_summary(Summary& summary) const {
  summary.ema_decay = decay_;
  if (is_kept_) summary.output = "ema";
}

}  // namespace privgrad::core
