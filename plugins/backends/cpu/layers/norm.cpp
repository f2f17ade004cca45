// Normalisations, whose gradients are kept as rows.
#include <algorithm>
#include <cmath>
#include <vector>

#include "instruction_loops.hpp"
#include "layers/kept_rows.hpp"
#include "layers/kind.hpp"

namespace privgrad::cpu {
namespace {

// --- Norms of one place, in double, with the same bits on every processor.

constexpr std::size_t kLanes = 16;

// For lambdas in the bodies of loops.
#define PRIVGRAD_INLINED __attribute__((always_inline))

/// Calls add(c, lane) for each channel, with its lane: c modulo kLanes.
template <class Add>
PRIVGRAD_INLINE void for_each_lane(std::size_t count, const Add& add) {
  std::size_t c = 0;
  for (; c + kLanes <= count; c += kLanes) {
    PRIVGRAD_UNROLLED for (std::size_t lane = 0; lane < kLanes; ++lane) add(c + lane, lane);
  }
  for (std::size_t lane = 0; c + lane < count; ++lane) add(c + lane, lane);
}

/// Returns the sum of the lanes, added up by halves.
PRIVGRAD_INLINE double sum_of(double (&lanes)[kLanes]) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

/// The numbers that normalise a place: (x - mean) * scale. An RMS norm has a mean of 0.
struct Moments {
  double mean, scale;
};

struct NormOfRows {
  std::size_t channels;
  double epsilon;
  bool centres;  ///< Whether the mean is subtracted, and there are biases.
};

PRIVGRAD_INLINE Moments moments_of(const NormOfRows& norm, const float* x) {
  const auto members = static_cast<double>(norm.channels);
  double mean = 0.0;
  if (norm.centres) {
    double sums[kLanes] = {};
    for_each_lane(norm.channels, [&](std::size_t c, std::size_t lane)
                                     PRIVGRAD_INLINED { sums[lane] += static_cast<double>(x[c]); });
    mean = sum_of(sums) / members;
  }
  double squares[kLanes] = {};
  for_each_lane(norm.channels, [&](std::size_t c, std::size_t lane) PRIVGRAD_INLINED {
    const double difference = static_cast<double>(x[c]) - mean;
    squares[lane] += difference * difference;
  });
  return {mean, 1.0 / std::sqrt(sum_of(squares) / members + norm.epsilon)};
}

/// out = (x - mean) * scale * weight + bias
PRIVGRAD_INLINE void normalise_row_body(const NormOfRows& norm, const float* x,
                                        const float* parameters, float* out) {
  const Moments moments = moments_of(norm, x);
  const auto normalised = [&](std::size_t c, double bias) PRIVGRAD_INLINED {
    return static_cast<float>((static_cast<double>(x[c]) - moments.mean) * moments.scale *
                                  static_cast<double>(parameters[c]) +
                              bias);
  };
  if (norm.centres) {
    const float* const biases = parameters + norm.channels;
    for (std::size_t c = 0; c < norm.channels; ++c)
      out[c] = normalised(c, static_cast<double>(biases[c]));
  } else {
    for (std::size_t c = 0; c < norm.channels; ++c) out[c] = normalised(c, 0.0);
  }
}
PRIVGRAD_LOOP(void, normalise_row,
              (const NormOfRows& norm, const float* x, const float* parameters, float* out),
              (norm, x, parameters, out))

/// below = scale * (p - mean of p - normalised value * slope), where p = delta * weight, and the
/// slope is the mean of the products of p with the normalised values.
PRIVGRAD_INLINE void hand_down_row_body(const NormOfRows& norm, const float* x, const float* delta,
                                        const float* weights, float* below) {
  const auto [mean, scale] = moments_of(norm, x);
  const auto members = static_cast<double>(norm.channels);
  double sums[kLanes] = {}, slopes[kLanes] = {};
  for_each_lane(norm.channels, [&, mean = mean, scale = scale](std::size_t c,
                                                               std::size_t lane) PRIVGRAD_INLINED {
    const double weighted = static_cast<double>(delta[c]) * static_cast<double>(weights[c]);
    sums[lane] += weighted;
    slopes[lane] += weighted * ((static_cast<double>(x[c]) - mean) * scale);
  });
  const double sum = norm.centres ? sum_of(sums) / members : 0.0;
  const double slope = sum_of(slopes) / members;
  for (std::size_t c = 0; c < norm.channels; ++c) {
    const double weighted = static_cast<double>(delta[c]) * static_cast<double>(weights[c]);
    const double value = (static_cast<double>(x[c]) - mean) * scale;
    below[c] = static_cast<float>(scale * (weighted - sum - value * slope));
  }
}
PRIVGRAD_LOOP(void, hand_down_row,
              (const NormOfRows& norm, const float* x, const float* delta, const float* weights,
               float* below),
              (norm, x, delta, weights, below))

/// weights += delta times the normalised value, and biases += delta.
PRIVGRAD_INLINE void add_row_gradient_body(const NormOfRows& norm, const float* x,
                                           const float* delta, double* weights, double* biases) {
  const auto [mean, scale] = moments_of(norm, x);
  for (std::size_t c = 0; c < norm.channels; ++c) {
    const auto error = static_cast<double>(delta[c]);
    weights[c] += error * ((static_cast<double>(x[c]) - mean) * scale);
    biases[c] += error;
  }
}
PRIVGRAD_LOOP(void, add_row_gradient,
              (const NormOfRows& norm, const float* x, const float* delta, double* weights,
               double* biases),
              (norm, x, delta, weights, biases))

/// The norm of each place over all its channels. Sums over channels add up in sixteen lanes (lane j
/// adds channels j, j + 16, ...), then the lanes by halves.
class RowNormStep final : public KeptRows {
 public:
  RowNormStep(double epsilon, bool centres, const Shape& in, const Shape& out)
      : KeptRows(in, out), norm_{.channels = in.back(), .epsilon = epsilon, .centres = centres} {
    parameter_count_ = (centres ? 2 : 1) * norm_.channels;
  }

  void forward(std::size_t count, Values in, float* out, Scratch&) const override {
    for (std::size_t at = 0; at < count * inputs_; at += norm_.channels)
      normalise_row(norm_, in[0] + at, own_, out + at);
  }

  void backward(std::size_t count, Values in, const float*, const float* delta, Below below,
                Scratch&) const override {
    for (std::size_t at = 0; at < count * inputs_; at += norm_.channels)
      hand_down_row(norm_, in[0] + at, delta + at, own_, below[0] + at);
  }

  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch&) const override {
    std::vector<double> sums(2 * norm_.channels);
    for (std::size_t row = 0; row < count; ++row) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::size_t at = row * inputs_; at < (row + 1) * inputs_; at += norm_.channels)
        add_row_gradient(norm_, in + at, delta + at, sums.data(), sums.data() + norm_.channels);
      std::transform(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(parameter_count_),
                     rows + row * stride, [](double sum) { return static_cast<float>(sum); });
    }
  }

 private:
  NormOfRows norm_;
};

// --- Norms of groups of channels over all places.

/// The numbers that normalise each channel of one place: (x - mean) * scale.
struct ChannelMoments {
  std::vector<double> mean, scale;
};

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

/// sums += delta * weight, and slopes += delta * weight * normalised value.
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

/// A group has its own mean and variance over all places. Its sums add up each channel's places in
/// order, then the channels in sixteen lanes (lane j adds channels j, j + 16, ... of the group),
/// then the lanes by halves.
class GroupNormStep final : public KeptRows {
 public:
  GroupNormStep(const GroupNorm& layer, const Shape& in, const Shape& out);
  void forward(std::size_t count, Values in, float* out, Scratch& scratch) const override;
  void backward(std::size_t count, Values in, const float* out, const float* delta, Below below,
                Scratch& scratch) const override;
  void gradient_rows(std::size_t count, const float* in, const float* delta, float* rows,
                     std::size_t stride, Scratch& scratch) const override;

 private:
  /// Calls body(first, moments) once for each example; `first` is the index of its first element.
  template <class Body>
  void for_each_example(std::size_t count, const float* in, const Body& body) const;
  /// Calls body(index of the place's first element) for each place of the example that begins at
  /// `first`.
  template <class Body>
  void for_each_place(std::size_t first, const Body& body) const;
  template <class Function>
  void spread_means(std::vector<double>& sums, const Function& function) const;
  void spread_means(std::vector<double>& sums) const {
    spread_means(sums, [](double mean) { return mean; });
  }

  std::size_t channels_;
  std::size_t channels_per_group_;
  double epsilon_;
};

GroupNormStep::GroupNormStep(const GroupNorm& layer, const Shape& in, const Shape& out)
    : KeptRows(in, out),
      channels_(in.back()),
      channels_per_group_(channels_ / layer.groups),
      epsilon_(layer.epsilon) {
  parameter_count_ = 2 * channels_;
}

/// Replaces each channel's sum by function(mean), with the mean of the channel's group.
template <class Function>
void GroupNormStep::spread_means(std::vector<double>& sums, const Function& function) const {
  const std::size_t members = inputs_ / channels_ * channels_per_group_;
  for (std::size_t first = 0; first < channels_; first += channels_per_group_) {
    double lanes[kLanes] = {};
    for_each_lane(channels_per_group_,
                  [&](std::size_t c, std::size_t lane) { lanes[lane] += sums[first + c]; });
    std::fill_n(sums.begin() + static_cast<std::ptrdiff_t>(first), channels_per_group_,
                function(sum_of(lanes) / static_cast<double>(members)));
  }
}

template <class Body>
void GroupNormStep::for_each_place(std::size_t first, const Body& body) const {
  for (std::size_t at = first; at < first + inputs_; at += channels_) body(at);
}

template <class Body>
void GroupNormStep::for_each_example(std::size_t count, const float* in, const Body& body) const {
  ChannelMoments moments;
  for (std::size_t first = 0; first < count * inputs_; first += inputs_) {
    moments.mean.assign(channels_, 0.0);
    for_each_place(first,
                   [&](std::size_t at) { add_values(in + at, channels_, moments.mean.data()); });
    spread_means(moments.mean);
    moments.scale.assign(channels_, 0.0);
    for_each_place(first, [&](std::size_t at) {
      add_squares(in + at, moments.mean.data(), channels_, moments.scale.data());
    });
    spread_means(moments.scale,
                 [&](double variance) { return 1.0 / std::sqrt(variance + epsilon_); });
    body(first, moments);
  }
}

void GroupNormStep::forward(std::size_t count, Values in, float* out, Scratch&) const {
  for_each_example(count, in[0], [&](std::size_t first, const ChannelMoments& moments) {
    for_each_place(first, [&](std::size_t at) {
      normalise(in[0] + at, moments.mean.data(), moments.scale.data(), own_, own_ + channels_,
                channels_, out + at);
    });
  });
}

void GroupNormStep::backward(std::size_t count, Values in, const float*, const float* delta,
                             Below below, Scratch&) const {
  std::vector<double> sums, slopes;
  for_each_example(count, in[0], [&](std::size_t first, const ChannelMoments& moments) {
    sums.assign(channels_, 0.0);
    slopes.assign(channels_, 0.0);
    for_each_place(first, [&](std::size_t at) {
      add_weighted(in[0] + at, delta + at, moments.mean.data(), moments.scale.data(), own_,
                   channels_, sums.data(), slopes.data());
    });
    spread_means(sums);
    spread_means(slopes);
    for_each_place(first, [&](std::size_t at) {
      hand_down(in[0] + at, delta + at, moments.mean.data(), moments.scale.data(), own_,
                sums.data(), slopes.data(), channels_, below[0] + at);
    });
  });
}

void GroupNormStep::gradient_rows(std::size_t count, const float* in, const float* delta,
                                  float* rows, std::size_t stride, Scratch&) const {
  std::vector<double> sums(2 * channels_);
  for_each_example(count, in, [&](std::size_t first, const ChannelMoments& moments) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for_each_place(first, [&](std::size_t at) {
      add_gradient(in + at, delta + at, moments.mean.data(), moments.scale.data(), channels_,
                   sums.data(), sums.data() + channels_);
    });
    std::transform(sums.begin(), sums.end(), rows + first / inputs_ * stride,
                   [](double sum) { return static_cast<float>(sum); });
  });
}

}  // namespace

std::unique_ptr<Step> step_of(const GroupNorm& layer, const Place& place) {
  return std::make_unique<GroupNormStep>(layer, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const GroupNorm&, const Place&);

std::unique_ptr<Step> step_of(const LayerNorm& layer, const Place& place) {
  return std::make_unique<RowNormStep>(layer.epsilon, true, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const LayerNorm&, const Place&);

std::unique_ptr<Step> step_of(const RmsNorm& layer, const Place& place) {
  return std::make_unique<RowNormStep>(layer.epsilon, false, place.in(), place.out);
}
template std::unique_ptr<Step> step_of_kind(const RmsNorm&, const Place&);

}  // namespace privgrad::cpu
