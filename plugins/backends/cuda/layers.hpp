// Kernels for the layers that are not matrix products.
#pragma once

#include "activations.hpp"
#include "convolutions.hpp"
#include "sequences.hpp"

// The kernels compute outputs, derivatives, and the gradients of parameters. One thread, or the
// lanes of a row, computes each sum of an example, in the order of the backend `cpu`.
namespace privgrad::cuda {

// --- Sums and multiples of values, and parts of one.

struct PassOn {
  uint64_t count;
  const float* from;
  float* to;
  PRIVGRAD_HD void operator()(uint64_t i) const { to[i] = from[i]; }
};

struct MultiplyValues {
  uint64_t count;
  const float *a, *b;
  float* product;
  PRIVGRAD_HD void operator()(uint64_t i) const { product[i] = a[i] * b[i]; }
};

struct AddTo {
  uint64_t count;
  const float* from;
  float* to;
  PRIVGRAD_HD void operator()(uint64_t i) const { to[i] += from[i]; }
};

struct MultiplyBy {
  uint64_t count;
  float factor;
  const float* from;
  float* to;
  PRIVGRAD_HD void operator()(uint64_t i) const { to[i] = factor * from[i]; }
};

/// Copies the elements [first, first + size) of each `extent` elements.
struct TakePart {
  uint64_t count, extent, first, size;
  const float* from;
  float* to;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    to[i] = from[i / size * extent + first + i % size];
  }
};

/// The transpose of TakePart: writes zeros to all other elements.
struct PutPart {
  uint64_t count, extent, first, size;
  const float* from;
  float* to;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t at = i % extent - first;  // wraps to a number above size if before first
    to[i] = at < size ? from[i / extent * size + at] : 0.0f;
  }
};

// --- Convolutions.

/// Computes each example's gradient of the biases: the sum of its delta over the places, in order.
struct ConvBiases {
  uint64_t count;
  Convolution conv;
  const float* delta;
  float* biases;  // `stride` floats from one example's to the next
  uint64_t stride;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t example = i / conv.channels;
    const uint64_t channel = i % conv.channels;
    float sum = 0.0f;
    for (uint64_t t = 0; t < conv.places(); ++t) {
      sum += delta[example * conv.outputs() + t * conv.channels + channel];
    }
    biases[example * stride + channel] = sum;
  }
};

// --- Pooling.

struct Pooling {
  uint64_t height, width, depth;  // extents of the input
  uint64_t rows, columns;         // extents of the output
  uint32_t window, stride;
  bool largest;  // maximum, otherwise the mean
  Divisor by_width, by_depth, by_columns, by_stride;

  PRIVGRAD_HD uint64_t inputs() const { return height * width * depth; }
  PRIVGRAD_HD uint64_t outputs() const { return rows * columns * depth; }
  /// Returns the first pixel of output i.
  PRIVGRAD_HD uint64_t corner(uint32_t i) const {
    const uint32_t place = by_depth.quotient(i), row = by_columns.quotient(place);
    const uint32_t column = place - row * by_columns.value;
    return (row * width + column) * stride * depth + (i - place * by_depth.value);
  }
};

struct PoolForward {
  uint64_t count;
  Pooling pool;
  const float* in;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t example = i / pool.outputs();
    const auto output = static_cast<uint32_t>(i - example * pool.outputs());
    const float* corner = in + example * pool.inputs() + pool.corner(output);
    float value = corner[0];
    for (uint32_t u = 0; u < pool.window; ++u) {
      for (uint32_t v = u == 0 ? 1 : 0; v < pool.window; ++v) {
        const float x = corner[(u * pool.width + v) * pool.depth];
        if (pool.largest) {
          value = x > value || x != x ? x : value;
        } else {
          value += x;
        }
      }
    }
    out[i] = pool.largest ? value : value / static_cast<float>(pool.window * pool.window);
  }
};

/// Computes each pixel's derivative: the sum over the windows that contain the pixel, in order.
struct PoolBackward {
  uint64_t count;
  Pooling pool;
  const float *in, *out, *delta;
  float* below;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t example = i / pool.inputs();
    const auto pixel = static_cast<uint32_t>(i - example * pool.inputs());
    const uint32_t place = pool.by_depth.quotient(pixel), row = pool.by_width.quotient(place);
    const uint32_t channel = pixel - place * pool.by_depth.value;
    const uint32_t column = place - row * pool.by_width.value;
    const float share = 1.0f / static_cast<float>(pool.window * pool.window);
    float sum = 0.0f;
    for (uint32_t y = first(row); y < pool.rows && y * pool.stride <= row; ++y) {
      for (uint32_t x = first(column); x < pool.columns && x * pool.stride <= column; ++x) {
        const uint64_t output = (y * pool.columns + x) * pool.depth + channel;
        const float given = delta[example * pool.outputs() + output];
        if (!pool.largest) {
          sum += share * given;
        } else if (is_chosen(example, output, i, row - y * pool.stride, column - x * pool.stride)) {
          sum += given;
        }
      }
    }
    below[i] = sum;
  }

 private:
  PRIVGRAD_HD uint32_t first(uint32_t pixel) const {
    return pixel < pool.window ? 0 : pool.by_stride.quotient(pixel - pool.window) + 1;
  }

  /// Whether pixel (u, v) of a window, whose value is in[i], is the first pixel with the window's
  /// largest value.
  PRIVGRAD_HD bool is_chosen(uint64_t example, uint64_t output, uint64_t i, uint32_t u,
                             uint32_t v) const {
    const float top = out[example * pool.outputs() + output];
    if (in[i] != top) return false;
    const float* corner = in + i - (u * pool.width + v) * pool.depth;
    for (uint32_t above = 0; above <= u; ++above) {
      for (uint32_t left = 0; left < (above == u ? v : pool.window); ++left) {
        if (corner[(above * pool.width + left) * pool.depth] == top) return false;
      }
    }
    return true;
  }
};

// --- Norms.

/// Group, layer and RMS normalisation: each set of places and channels has its own moments.
struct Norm {
  uint64_t places, channels;
  uint64_t places_per_set, channels_per_set;
  double epsilon;
  bool centres;  // whether the mean is subtracted, and there are biases

  PRIVGRAD_HD uint64_t values() const { return places * channels; }
  PRIVGRAD_HD uint64_t members() const { return places_per_set * channels_per_set; }
  PRIVGRAD_HD uint64_t sets_across() const { return channels / channels_per_set; }
  PRIVGRAD_HD uint64_t sets() const { return values() / members(); }
  /// Returns channel c of a set at its place p, as an index into the example's values.
  PRIVGRAD_HD uint64_t member(uint64_t set, uint64_t p, uint64_t c) const {
    const uint64_t place = set / sets_across() * places_per_set + p;
    return place * channels + set % sets_across() * channels_per_set + c;
  }
  /// Returns a lane's part of the sum of term(index) over a set: each channel's places in order,
  /// then the lane's channels in order.
  template <class Term>
  PRIVGRAD_HD double part(uint64_t set, uint32_t lane, const Term& term) const {
    double all = 0.0;
    for (uint64_t c = lane; c < channels_per_set; c += kRowLanes) {
      double sum = 0.0;
      for (uint64_t p = 0; p < places_per_set; ++p) sum += term(member(set, p, c));
      all += sum;
    }
    return all;
  }
  PRIVGRAD_HD uint64_t set_of(uint64_t value) const {
    return value / channels / places_per_set * sets_across() + value % channels / channels_per_set;
  }
};

/// The normalisation of a set's values: (x - mean) * scale.
struct Moments {
  double mean, scale;
};

struct NormMoments {
  struct Shared {
    Lanes<double> sums, squares;
  };

  uint64_t count;  // sets of all examples
  Norm norm;
  const float* in;
  Moments* moments;

  uint64_t blocks() const { return blocks_of_rows(count); }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      if (i >= count || !norm.centres) return;
      const float* own = in + i / norm.sets() * norm.values();
      shared.sums.of(thread) = norm.part(i % norm.sets(), thread % kRowLanes,
                                         [&](uint64_t at) { return static_cast<double>(own[at]); });
    });
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      if (i >= count) return;
      const float* own = in + i / norm.sets() * norm.values();
      const double mean = mean_of(shared, thread);
      shared.squares.of(thread) = norm.part(i % norm.sets(), thread % kRowLanes, [&](uint64_t at) {
        const double difference = static_cast<double>(own[at]) - mean;
        return difference * difference;
      });
    });
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      if (i >= count || thread % kRowLanes != 0) return;
      const double variance = shared.squares.sum(thread) / static_cast<double>(norm.members());
      moments[i] = {mean_of(shared, thread), 1.0 / square_root(variance + norm.epsilon)};
    });
  }

 private:
  PRIVGRAD_HD double mean_of(const Shared& shared, uint32_t thread) const {
    return norm.centres ? shared.sums.sum(thread) / static_cast<double>(norm.members()) : 0.0;
  }
};

struct NormForward {
  uint64_t count;
  Norm norm;
  const float *in, *parameters;
  const Moments* moments;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t value = i % norm.values();
    const Moments& own = moments[i / norm.values() * norm.sets() + norm.set_of(value)];
    const uint64_t channel = value % norm.channels;
    out[i] = static_cast<float>(
        (static_cast<double>(in[i]) - own.mean) * own.scale *
            static_cast<double>(parameters[channel]) +
        (norm.centres ? static_cast<double>(parameters[norm.channels + channel]) : 0.0));
  }
};

struct NormBackward {
  struct Shared {
    Lanes<double> errors, slopes;
  };

  uint64_t count;  // sets of all examples
  Norm norm;
  const float *in, *parameters, *delta;
  const Moments* moments;
  float* below;

  uint64_t blocks() const { return blocks_of_rows(count); }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      if (i >= count) return;
      const uint64_t first = i / norm.sets() * norm.values(), set = i % norm.sets();
      const Moments& own = moments[i];
      const uint32_t lane = thread % kRowLanes;
      if (norm.centres)
        shared.errors.of(thread) =
            norm.part(set, lane, [&](uint64_t at) { return weighted(first, at); });
      shared.slopes.of(thread) = norm.part(
          set, lane, [&](uint64_t at) { return weighted(first, at) * value(first + at, own); });
    });
    each_thread([&](uint32_t thread) {
      const uint64_t i = row_of_thread(block, thread);
      if (i >= count) return;
      const uint64_t first = i / norm.sets() * norm.values(), set = i % norm.sets();
      const Moments& own = moments[i];
      const auto members = static_cast<double>(norm.members());
      const double mean = norm.centres ? shared.errors.sum(thread) / members : 0.0;
      const double slope = shared.slopes.sum(thread) / members;
      for (uint64_t p = 0; p < norm.places_per_set; ++p) {
        for (uint64_t c = thread % kRowLanes; c < norm.channels_per_set; c += kRowLanes) {
          const uint64_t at = norm.member(set, p, c);
          below[first + at] = static_cast<float>(
              own.scale * (weighted(first, at) - mean - value(first + at, own) * slope));
        }
      }
    });
  }

 private:
  PRIVGRAD_HD double weighted(uint64_t first, uint64_t at) const {
    return static_cast<double>(delta[first + at]) *
           static_cast<double>(parameters[at % norm.channels]);
  }
  PRIVGRAD_HD double value(uint64_t i, const Moments& own) const {
    return (static_cast<double>(in[i]) - own.mean) * own.scale;
  }
};

/// Computes each example's gradient of one channel's weight and bias.
struct NormGradient {
  uint64_t count;  // channels of all examples
  Norm norm;
  const float *in, *delta;
  const Moments* moments;
  float* gradients;  // `stride` floats from one example's to the next
  uint64_t stride;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t example = i / norm.channels;
    const uint64_t channel = i % norm.channels;
    const Moments* own = moments + example * norm.sets() + channel / norm.channels_per_set;
    uint64_t at = example * norm.values() + channel;
    double weight = 0.0, bias = 0.0;
    for (uint64_t first = 0; first < norm.places; first += norm.places_per_set) {
      for (uint64_t p = 0; p < norm.places_per_set; ++p, at += norm.channels) {
        const double value = (static_cast<double>(in[at]) - own->mean) * own->scale;
        const auto error = static_cast<double>(delta[at]);
        weight += error * value;
        bias += error;
      }
      own += norm.sets_across();
    }
    gradients[example * stride + channel] = static_cast<float>(weight);
    if (norm.centres)
      gradients[example * stride + norm.channels + channel] = static_cast<float>(bias);
  }
};

// --- Embedding.

struct Table {
  // vocabulary, width: the table's rows and columns; length: the number of tokens of an example
  uint64_t vocabulary, width, length;

  PRIVGRAD_HD bool is_token(float value) const {
    return value >= 0.0f && value < static_cast<float>(vocabulary) &&
           value == static_cast<float>(static_cast<uint64_t>(value));
  }
  PRIVGRAD_HD static bool is_empty(float value) { return value == kEmptyPlace; }
  /// Whether all of an example's values are tokens or empty places.
  PRIVGRAD_HD bool are_tokens(const float* example) const {
    for (uint64_t t = 0; t < length; ++t) {
      if (!is_empty(example[t]) && !is_token(example[t])) return false;
    }
    return true;
  }
  /// Whether the place has a token that no earlier place has.
  PRIVGRAD_HD bool is_first(const float* example, uint64_t t) const {
    if (is_empty(example[t])) return false;
    for (uint64_t earlier = 0; earlier < t; ++earlier) {
      if (example[earlier] == example[t]) return false;
    }
    return true;
  }
  /// Returns column k of the row gradient of place t's token, summed over its places from t on.
  PRIVGRAD_HD float gradient(const float* example, const float* delta, uint64_t t,
                             uint64_t k) const {
    double sum = 0.0;
    for (uint64_t later = t; later < length; ++later) {
      if (example[later] == example[t]) sum += static_cast<double>(delta[later * width + k]);
    }
    return static_cast<float>(sum);
  }
};

struct EmbeddingForward {
  uint64_t count;
  Table table;
  const float *in, *parameters;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const float token = in[i / table.width];
    out[i] = table.is_token(token)
                 ? parameters[static_cast<uint64_t>(token) * table.width + i % table.width]
             : table.is_empty(token) ? 0.0f
                                     : float_of(kFloatNan);
  }
};

/// Writes each example's gradient into rows of zeros; writes NaN into the first number of the row
/// if the example's values are not all tokens or empty places.
struct EmbeddingGradient {
  uint64_t count;  // [examples, length, width]
  Table table;
  const float *in, *delta;
  float* gradients;  // `stride` floats from one example's to the next
  uint64_t stride;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t example = i / (table.length * table.width);
    const uint64_t t = i / table.width % table.length;
    const uint64_t k = i % table.width;
    const float* own = in + example * table.length;
    float* row = gradients + example * stride;
    if (!table.are_tokens(own)) {
      if (t == 0 && k == 0) row[0] = float_of(kFloatNan);
      return;
    }
    if (!table.is_first(own, t)) return;
    row[static_cast<uint64_t>(own[t]) * table.width + k] =
        table.gradient(own, delta + example * table.length * table.width, t, k);
  }
};

/// Computes each example's gradient of a dense layer: first delta[u] in[k], then delta.
struct DenseGradient {
  uint64_t count;  // [examples, size]
  uint64_t size;   // number of the layer's parameters
  uint64_t units, inputs;
  const float *in, *delta;
  float* gradients;  // `stride` floats from one example's to the next
  uint64_t stride;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const uint64_t example = i / size;
    const uint64_t at = i % size;
    const float* own = delta + example * units;
    gradients[example * stride + at] = at < units * inputs
                                           ? own[at / inputs] * in[example * inputs + at % inputs]
                                           : own[at - units * inputs];
  }
};

}  // namespace privgrad::cuda
