// Group and layer normalisation, whose gradients are kept as rows.
#include <algorithm>
#include <cmath>
#include <vector>

#include "layers/kept_rows.hpp"
#include "layers/make_step.hpp"

namespace privgrad::cpu {
namespace {

/// Sets of places and channels that each have their own mean and variance.
class NormStep final : public KeptRows {
 public:
  NormStep(const GroupNorm& layer, const Shape& in, const Shape& out);
  NormStep(const LayerNorm& layer, const Shape& in, const Shape& out);
  void forward(std::size_t count, Values in, float* out, Scratch& scratch) const override;
  void backward(std::size_t count, Values in, const float* out, const float* delta, Below below,
                Scratch& scratch) const override;
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;

 private:
  /// Calls body(element, channel, normalised value) for each element of each set of one example,
  /// and start(places, channels, 1 / deviation) before a set's first element.
  template <class Start, class Body>
  void for_each_set(const float* in, const Start& start, const Body& body) const;

  std::size_t places_, channels_;
  std::size_t places_per_set_, channels_per_set_;
  double epsilon_;
};

NormStep::NormStep(const GroupNorm& layer, const Shape& in, const Shape& out)
    : KeptRows(in, out),
      places_(inputs_ / in.back()),
      channels_(in.back()),
      places_per_set_(places_),
      channels_per_set_(channels_ / layer.groups),
      epsilon_(layer.epsilon) {
  parameter_count_ = 2 * channels_;
}

NormStep::NormStep(const LayerNorm& layer, const Shape& in, const Shape& out)
    : KeptRows(in, out),
      places_(inputs_ / in.back()),
      channels_(in.back()),
      places_per_set_(1),
      channels_per_set_(channels_),
      epsilon_(layer.epsilon) {
  parameter_count_ = 2 * channels_;
}

template <class Start, class Body>
void NormStep::for_each_set(const float* in, const Start& start, const Body& body) const {
  const auto members = static_cast<double>(places_per_set_ * channels_per_set_);
  for (std::size_t place = 0; place < places_; place += places_per_set_) {
    for (std::size_t channel = 0; channel < channels_; channel += channels_per_set_) {
      const auto for_each_member = [&](const auto& use) {
        for (std::size_t p = place; p < place + places_per_set_; ++p) {
          for (std::size_t c = channel; c < channel + channels_per_set_; ++c) {
            use(p * channels_ + c, c);
          }
        }
      };
      double mean = 0.0;
      for_each_member([&](std::size_t i, std::size_t) { mean += static_cast<double>(in[i]); });
      mean /= members;
      double variance = 0.0;
      for_each_member([&](std::size_t i, std::size_t) {
        const double difference = static_cast<double>(in[i]) - mean;
        variance += difference * difference;
      });
      const double scale = 1.0 / std::sqrt(variance / members + epsilon_);
      const auto with_value = [&](const auto& use) {
        for_each_member([&](std::size_t i, std::size_t c) {
          use(i, c, (static_cast<double>(in[i]) - mean) * scale);
        });
      };
      start(with_value, scale);
      with_value(body);
    }
  }
}

void NormStep::forward(std::size_t count, Values values, float* out, Scratch&) const {
  const float* in = values[0];
  for (std::size_t i = 0; i < count; ++i, in += inputs_, out += outputs_) {
    for_each_set(
        in, [](const auto&, double) {},
        [&](std::size_t at, std::size_t channel, double value) {
          out[at] = static_cast<float>(value * static_cast<double>(own_[channel]) +
                                       static_cast<double>(own_[channels_ + channel]));
        });
  }
}

void NormStep::backward(std::size_t count, Values in, const float*, const float* delta, Below below,
                        Scratch&) const {
  const auto members = static_cast<double>(places_per_set_ * channels_per_set_);
  for (std::size_t i = 0; i < count; ++i) {
    const float* deltas = delta + i * outputs_;
    float* to = below[0] + i * inputs_;
    double mean = 0.0, slope = 0.0, scale = 0.0;
    const auto weighted = [&](std::size_t at, std::size_t channel) {
      return static_cast<double>(deltas[at]) * static_cast<double>(own_[channel]);
    };
    for_each_set(
        in[0] + i * inputs_,
        [&](const auto& for_each, double set_scale) {
          mean = slope = 0.0;
          scale = set_scale;
          for_each([&](std::size_t at, std::size_t channel, double value) {
            mean += weighted(at, channel) / members;
            slope += weighted(at, channel) * value / members;
          });
        },
        [&](std::size_t at, std::size_t channel, double value) {
          to[at] = static_cast<float>(scale * (weighted(at, channel) - mean - value * slope));
        });
  }
}

void NormStep::gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                             std::size_t stride, Scratch&) const {
  std::vector<double> sums(parameter_count_);
  for (std::size_t i = 0; i < count; ++i) {
    const float* deltas = delta + i * outputs_;
    std::fill(sums.begin(), sums.end(), 0.0);
    for_each_set(
        in + i * inputs_, [](const auto&, double) {},
        [&](std::size_t at, std::size_t channel, double value) {
          sums[channel] += static_cast<double>(deltas[at]) * value;
          sums[channels_ + channel] += static_cast<double>(deltas[at]);
        });
    std::transform(sums.begin(), sums.end(), rows + i * stride,
                   [](double sum) { return static_cast<float>(sum); });
  }
}

}  // namespace

std::unique_ptr<Step> step_of(const GroupNorm& layer, const Place& place) {
  return std::make_unique<NormStep>(layer, place.in(), place.out);
}

std::unique_ptr<Step> step_of(const LayerNorm& layer, const Place& place) {
  return std::make_unique<NormStep>(layer, place.in(), place.out);
}

}  // namespace privgrad::cpu
