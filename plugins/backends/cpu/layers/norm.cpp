// Normalisations, whose gradients are kept as rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "instruction_loops.hpp"
#include "layers/kept_rows.hpp"
#include "layers/make_step.hpp"

namespace privgrad::cpu {
namespace {

/// The numbers that normalise each channel of one place: (x - mean) * scale.
struct ChannelMoments {
  std::vector<double> mean, scale;
};

// --- Loops over the channels of one place, in double, with the same bits on every processor.

PRIVGRAD_INLINE void add_values_body(const float* x, std::size_t count, double* sums) {
  for (std::size_t c = 0; c < count; ++c) sums[c] += static_cast<double>(x[c]);
}
PRIVGRAD_LOOP(void, add_values, (const float* x, std::size_t count, double* sums), (x, count, sums))

PRIVGRAD_INLINE void add_squares_body(const float* x, const double* mean, std::size_t count,
                                      double* sums) {
  for (std::size_t c = 0; c < count; ++c) {
    const double difference = static_cast<double>(x[c]) - mean[c];
    sums[c] += difference * difference;
  }
}
PRIVGRAD_LOOP(void, add_squares,
              (const float* x, const double* mean, std::size_t count, double* sums),
              (x, mean, count, sums))

/// out = (x - mean) * scale * weight + bias
PRIVGRAD_INLINE void normalise_body(const float* x, const double* mean, const double* scale,
                                    const float* weights, const float* biases, std::size_t count,
                                    float* out) {
  for (std::size_t c = 0; c < count; ++c) {
    out[c] = static_cast<float>((static_cast<double>(x[c]) - mean[c]) * scale[c] *
                                    static_cast<double>(weights[c]) +
                                static_cast<double>(biases[c]));
  }
}
PRIVGRAD_LOOP(void, normalise,
              (const float* x, const double* mean, const double* scale, const float* weights,
               const float* biases, std::size_t count, float* out),
              (x, mean, scale, weights, biases, count, out))

/// sums += delta * weight, and slopes += that times the normalised value.
PRIVGRAD_INLINE void add_weighted_body(const float* x, const float* delta, const double* mean,
                                       const double* scale, const float* own, std::size_t count,
                                       double* sums, double* slopes) {
  for (std::size_t c = 0; c < count; ++c) {
    const double weighted = static_cast<double>(delta[c]) * static_cast<double>(own[c]);
    sums[c] += weighted;
    slopes[c] += weighted * ((static_cast<double>(x[c]) - mean[c]) * scale[c]);
  }
}
PRIVGRAD_LOOP(void, add_weighted,
              (const float* x, const float* delta, const double* mean, const double* scale,
               const float* own, std::size_t count, double* sums, double* slopes),
              (x, delta, mean, scale, own, count, sums, slopes))

/// below = scale * (delta * weight - sum - normalised value * slope)
PRIVGRAD_INLINE void hand_down_body(const float* x, const float* delta, const double* mean,
                                    const double* scale, const float* own, const double* sums,
                                    const double* slopes, std::size_t count, float* below) {
  for (std::size_t c = 0; c < count; ++c) {
    const double weighted = static_cast<double>(delta[c]) * static_cast<double>(own[c]);
    const double value = (static_cast<double>(x[c]) - mean[c]) * scale[c];
    below[c] = static_cast<float>(scale[c] * (weighted - sums[c] - value * slopes[c]));
  }
}
PRIVGRAD_LOOP(void, hand_down,
              (const float* x, const float* delta, const double* mean, const double* scale,
               const float* own, const double* sums, const double* slopes, std::size_t count,
               float* below),
              (x, delta, mean, scale, own, sums, slopes, count, below))

/// weights += delta times the normalised value, and biases += delta.
PRIVGRAD_INLINE void add_gradient_body(const float* x, const float* delta, const double* mean,
                                       const double* scale, std::size_t count, double* weights,
                                       double* biases) {
  for (std::size_t c = 0; c < count; ++c) {
    const auto error = static_cast<double>(delta[c]);
    weights[c] += error * ((static_cast<double>(x[c]) - mean[c]) * scale[c]);
    biases[c] += error;
  }
}
PRIVGRAD_LOOP(void, add_gradient,
              (const float* x, const float* delta, const double* mean, const double* scale,
               std::size_t count, double* weights, double* biases),
              (x, delta, mean, scale, count, weights, biases))

/// Sets of places and channels that each have their own mean and variance. A sum over a set adds up
/// each channel's places in order, then the channels in sixteen lanes (lane j adds channels j, j +
/// 16, ... of the set), then the lanes by halves.
class NormStep final : public KeptRows {
 public:
  NormStep(const GroupNorm& layer, const Shape& in, const Shape& out);
  NormStep(const LayerNorm& layer, const Shape& in, const Shape& out);
  NormStep(const RmsNorm& layer, const Shape& in, const Shape& out);
  void forward(std::size_t count, Values in, float* out, Scratch& scratch) const override;
  void backward(std::size_t count, Values in, const float* out, const float* delta, Below below,
                Scratch& scratch) const override;
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;

 private:
  /// Calls body(first element of the places, moments) for the places of each set of each example.
  template <class Body>
  void for_each_set(std::size_t count, const float* in, const Body& body) const;
  /// Calls body(first element of the place) for each place of a set.
  template <class Body>
  void for_each_place(std::size_t first, const Body& body) const;
  template <class Function>
  void spread_means(std::vector<double>& sums, const Function& function) const;
  void spread_means(std::vector<double>& sums) const {
    spread_means(sums, [](double mean) { return mean; });
  }

  std::size_t channels_;
  std::size_t places_per_set_, channels_per_set_;
  double epsilon_;
  bool centres_ = true;            // whether the mean is subtracted, and there are biases
  std::vector<float> zeros_ = {};  // the biases of a layer without biases
};

NormStep::NormStep(const GroupNorm& layer, const Shape& in, const Shape& out)
    : KeptRows(in, out),
      channels_(in.back()),
      places_per_set_(inputs_ / channels_),
      channels_per_set_(channels_ / layer.groups),
      epsilon_(layer.epsilon) {
  parameter_count_ = 2 * channels_;
}

NormStep::NormStep(const LayerNorm& layer, const Shape& in, const Shape& out)
    : KeptRows(in, out),
      channels_(in.back()),
      places_per_set_(1),
      channels_per_set_(channels_),
      epsilon_(layer.epsilon) {
  parameter_count_ = 2 * channels_;
}

NormStep::NormStep(const RmsNorm& layer, const Shape& in, const Shape& out)
    : KeptRows(in, out),
      channels_(in.back()),
      places_per_set_(1),
      channels_per_set_(channels_),
      epsilon_(layer.epsilon),
      centres_(false),
      zeros_(channels_) {
  parameter_count_ = channels_;
}

/// Replaces the sum of each channel by function(the mean of its set).
template <class Function>
void NormStep::spread_means(std::vector<double>& sums, const Function& function) const {
  constexpr std::size_t kLanes = 16;
  const auto members = static_cast<double>(places_per_set_ * channels_per_set_);
  for (std::size_t first = 0; first < channels_; first += channels_per_set_) {
    std::array<double, kLanes> lanes{};
    for (std::size_t c = 0; c < channels_per_set_; c += kLanes) {
      const std::size_t some = std::min(kLanes, channels_per_set_ - c);
      for (std::size_t lane = 0; lane < some; ++lane) lanes[lane] += sums[first + c + lane];
    }
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    std::fill_n(sums.begin() + static_cast<std::ptrdiff_t>(first), channels_per_set_,
                function(lanes[0] / members));
  }
}

template <class Body>
void NormStep::for_each_place(std::size_t first, const Body& body) const {
  for (std::size_t place = 0; place < places_per_set_; ++place) body(first + place * channels_);
}

template <class Body>
void NormStep::for_each_set(std::size_t count, const float* in, const Body& body) const {
  ChannelMoments moments;
  for (std::size_t first = 0; first < count * inputs_; first += places_per_set_ * channels_) {
    moments.mean.assign(channels_, 0.0);
    if (centres_) {
      for_each_place(first,
                     [&](std::size_t at) { add_values(in + at, channels_, moments.mean.data()); });
      spread_means(moments.mean);
    }
    moments.scale.assign(channels_, 0.0);
    for_each_place(first, [&](std::size_t at) {
      add_squares(in + at, moments.mean.data(), channels_, moments.scale.data());
    });
    spread_means(moments.scale,
                 [&](double variance) { return 1.0 / std::sqrt(variance + epsilon_); });
    body(first, moments);
  }
}

void NormStep::forward(std::size_t count, Values in, float* out, Scratch&) const {
  for_each_set(count, in[0], [&](std::size_t first, const ChannelMoments& moments) {
    for_each_place(first, [&](std::size_t at) {
      normalise(in[0] + at, moments.mean.data(), moments.scale.data(), own_,
                centres_ ? own_ + channels_ : zeros_.data(), channels_, out + at);
    });
  });
}

void NormStep::backward(std::size_t count, Values in, const float*, const float* delta, Below below,
                        Scratch&) const {
  std::vector<double> sums, slopes;
  for_each_set(count, in[0], [&](std::size_t first, const ChannelMoments& moments) {
    sums.assign(channels_, 0.0);
    slopes.assign(channels_, 0.0);
    for_each_place(first, [&](std::size_t at) {
      add_weighted(in[0] + at, delta + at, moments.mean.data(), moments.scale.data(), own_,
                   channels_, sums.data(), slopes.data());
    });
    if (centres_) {
      spread_means(sums);
    } else {
      sums.assign(channels_, 0.0);
    }
    spread_means(slopes);
    for_each_place(first, [&](std::size_t at) {
      hand_down(in[0] + at, delta + at, moments.mean.data(), moments.scale.data(), own_,
                sums.data(), slopes.data(), channels_, below[0] + at);
    });
  });
}

void NormStep::gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                             std::size_t stride, Scratch&) const {
  std::vector<double> sums(2 * channels_);
  for_each_set(count, in, [&](std::size_t first, const ChannelMoments& moments) {
    if (first % inputs_ == 0) std::fill(sums.begin(), sums.end(), 0.0);
    for_each_place(first, [&](std::size_t at) {
      add_gradient(in + at, delta + at, moments.mean.data(), moments.scale.data(), channels_,
                   sums.data(), sums.data() + channels_);
    });
    const std::size_t end = first + places_per_set_ * channels_;
    if (end % inputs_ != 0) return;
    std::transform(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(parameter_count_),
                   rows + (end / inputs_ - 1) * stride,
                   [](double sum) { return static_cast<float>(sum); });
  });
}

}  // namespace

std::unique_ptr<Step> step_of(const GroupNorm& layer, const Place& place) {
  return std::make_unique<NormStep>(layer, place.in(), place.out);
}

std::unique_ptr<Step> step_of(const LayerNorm& layer, const Place& place) {
  return std::make_unique<NormStep>(layer, place.in(), place.out);
}

std::unique_ptr<Step> step_of(const RmsNorm& layer, const Place& place) {
  return std::make_unique<NormStep>(layer, place.in(), place.out);
}

}  // namespace privgrad::cpu
