// Kernels for matrix products whose results do not depend on the size or the order of a batch.
#pragma once

#include "device_code.hpp"
#include "rounding.hpp"

// Each element of each product is one chain,
//   add(a[n-1], b[n-1], ... add(a[1], b[1], add(a[0], b[0], start))),
// in the order of k for any number of rows and columns, place of the element, and tiling: an
// example's results depend only on the example, and not on the size of a batch, which is private.
// For float32, add is a fused multiply-add, and these are the chains of the backend `cpu`; for
// integers the order does not matter.
namespace privgrad::cuda {

/// A product, tile by tile: a block computes kTile rows times kTile columns, in pieces of kInner of
/// the chain, which its threads load together.
///
/// A Problem has the types Number and Sum; the extents rows, columns and inner; the number of
/// batches; the functions a(batch, row, k), b(batch, k, column), start(batch, row, column), add(a,
/// b, sum) and store(batch, row, column, sum); and kAByInner and kBByInner: whether neighbours in
/// memory are neighbours in k.
template <class Problem>
struct Product {
  static constexpr uint32_t kTile = 64, kInner = 16, kEach = 4;
  static constexpr uint32_t kAcross = kTile / kEach;  // threads side by side
  static constexpr uint32_t kLoads = kTile * kInner / kThreads;
  static_assert(kAcross * kAcross == kThreads);

  struct Shared {
    typename Problem::Number a[kInner][kTile + 1];
    typename Problem::Number b[kInner][kTile + 1];
  };
  struct Sums {
    typename Problem::Sum of[kEach][kEach];
  };

  Problem problem;

  uint64_t blocks() const { return uint64_t{problem.batches} * down() * across(); }

  PRIVGRAD_HD uint64_t down() const { return (uint64_t{problem.rows} + kTile - 1) / kTile; }
  PRIVGRAD_HD uint64_t across() const { return (uint64_t{problem.columns} + kTile - 1) / kTile; }

  PRIVGRAD_HD void run(uint64_t block, Shared& shared) const {
    const uint64_t batch = block / (down() * across());
    const uint64_t tile = block % (down() * across());
    const uint64_t top = tile % down() * kTile;
    const uint64_t left = tile / down() * kTile;
    PerThread<Sums> sums;
    each_thread([&](uint32_t thread) {
      const uint64_t row = top + uint64_t{thread / kAcross} * kEach;
      const uint64_t column = left + uint64_t{thread % kAcross} * kEach;
      PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEach; ++i) {
        PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEach; ++j) {
          const bool inside = row + i < problem.rows && column + j < problem.columns;
          sums[thread].of[i][j] = inside ? problem.start(batch, row + i, column + j) : 0;
        }
      }
    });
    for (uint64_t first = 0; first < problem.inner; first += kInner) {
      each_thread([&](uint32_t thread) { load(batch, top, left, first, thread, shared); });
      const auto some = static_cast<uint32_t>(smaller<uint64_t>(kInner, problem.inner - first));
      each_thread([&](uint32_t thread) { multiply(thread, some, shared, sums[thread]); });
    }
    each_thread([&](uint32_t thread) {
      const uint64_t row = top + uint64_t{thread / kAcross} * kEach;
      const uint64_t column = left + uint64_t{thread % kAcross} * kEach;
      PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEach; ++i) {
        PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEach; ++j) {
          if (row + i < problem.rows && column + j < problem.columns) {
            problem.store(batch, row + i, column + j, sums[thread].of[i][j]);
          }
        }
      }
    });
  }

 private:
  /// Elements outside the matrices are 0, and never stored.
  PRIVGRAD_HD void load(uint64_t batch, uint64_t top, uint64_t left, uint64_t first,
                        uint32_t thread, Shared& shared) const {
    PRIVGRAD_UNROLL for (uint32_t load = 0; load < kLoads; ++load) {
      const uint32_t at = load * kThreads + thread;
      const uint32_t a_inner = Problem::kAByInner ? at % kInner : at / kTile;
      const uint32_t a_place = Problem::kAByInner ? at / kInner : at % kTile;
      const uint32_t b_inner = Problem::kBByInner ? at % kInner : at / kTile;
      const uint32_t b_place = Problem::kBByInner ? at / kInner : at % kTile;
      shared.a[a_inner][a_place] = top + a_place < problem.rows && first + a_inner < problem.inner
                                       ? problem.a(batch, top + a_place, first + a_inner)
                                       : 0;
      shared.b[b_inner][b_place] =
          left + b_place < problem.columns && first + b_inner < problem.inner
              ? problem.b(batch, first + b_inner, left + b_place)
              : 0;
    }
  }

  PRIVGRAD_HD static void multiply(uint32_t thread, uint32_t inner, const Shared& shared,
                                   Sums& sums) {
    const uint32_t row = thread / kAcross * kEach;
    const uint32_t column = thread % kAcross * kEach;
    for (uint32_t k = 0; k < inner; ++k) {
      typename Problem::Number a[kEach], b[kEach];
      PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEach; ++i) a[i] = shared.a[k][row + i];
      PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEach; ++j) b[j] = shared.b[k][column + j];
      PRIVGRAD_UNROLL for (uint32_t i = 0; i < kEach; ++i) {
        PRIVGRAD_UNROLL for (uint32_t j = 0; j < kEach; ++j) {
          sums.of[i][j] = Problem::add(a[i], b[j], sums.of[i][j]);
        }
      }
    }
  }
};

// --- Products of float32.

struct FloatProduct {
  using Number = float;
  using Sum = float;
  PRIVGRAD_HD static float add(float a, float b, float sum) { return fused(a, b, sum); }
  uint64_t rows, columns, inner, batches;
};

/// out[i, u] = biases[u] + sum over k of weights[u, k] in[i, k].
struct DenseForward : FloatProduct {
  static constexpr bool kAByInner = true, kBByInner = true;
  const float *in, *weights, *biases;  // biases: null if there are none
  float* out;
  PRIVGRAD_HD float a(uint64_t, uint64_t i, uint64_t k) const { return in[i * inner + k]; }
  PRIVGRAD_HD float b(uint64_t, uint64_t k, uint64_t u) const { return weights[u * inner + k]; }
  PRIVGRAD_HD float start(uint64_t, uint64_t, uint64_t u) const {
    return biases == nullptr ? 0.0f : biases[u];
  }
  PRIVGRAD_HD void store(uint64_t, uint64_t i, uint64_t u, float sum) const {
    out[i * columns + u] = sum;
  }
};

/// below[i, k] = sum over u of delta[i, u] weights[u, k].
struct DenseBackward : FloatProduct {
  static constexpr bool kAByInner = true, kBByInner = false;
  const float *delta, *weights;
  float* below;
  PRIVGRAD_HD float a(uint64_t, uint64_t i, uint64_t u) const { return delta[i * inner + u]; }
  PRIVGRAD_HD float b(uint64_t, uint64_t u, uint64_t k) const { return weights[u * columns + k]; }
  PRIVGRAD_HD float start(uint64_t, uint64_t, uint64_t) const { return 0.0f; }
  PRIVGRAD_HD void store(uint64_t, uint64_t i, uint64_t k, float sum) const {
    below[i * columns + k] = sum;
  }
};

/// A convolution over images [height, width, depth], as network.hpp defines it.
struct Convolution {
  uint64_t height, width, depth;  // the extents of the input
  uint64_t rows, columns;         // the extents of the output
  uint64_t channels, kernel, stride, padding;

  PRIVGRAD_HD uint64_t inputs() const { return height * width * depth; }
  PRIVGRAD_HD uint64_t places() const { return rows * columns; }
  PRIVGRAD_HD uint64_t patch() const { return kernel * kernel * depth; }
  PRIVGRAD_HD uint64_t outputs() const { return places() * channels; }

  /// Element p of the patch that place t sees: 0 outside the image.
  PRIVGRAD_HD float pixel(const float* image, uint64_t t, uint64_t p) const {
    const uint64_t run = kernel * depth;
    // Indices of pixels in the padding wrap around, so they are at least as large as the extents.
    const uint64_t row = t / columns * stride + p / run - padding;
    const uint64_t column = t % columns * stride + p % run / depth - padding;
    if (row >= height || column >= width) return 0.0f;
    return image[(row * width + column) * depth + p % depth];
  }
};

/// For all places of all examples, out[e, t, c] = biases[c] + sum over p of weights[c, p]
/// pixel(t, p).
struct ConvForward : FloatProduct {
  static constexpr bool kAByInner = true, kBByInner = true;
  Convolution conv;
  const float *in, *weights, *biases;  // biases: null if there are none
  float* out;
  PRIVGRAD_HD float a(uint64_t, uint64_t i, uint64_t p) const {
    return conv.pixel(in + i / conv.places() * conv.inputs(), i % conv.places(), p);
  }
  PRIVGRAD_HD float b(uint64_t, uint64_t p, uint64_t c) const { return weights[c * inner + p]; }
  PRIVGRAD_HD float start(uint64_t, uint64_t, uint64_t c) const {
    return biases == nullptr ? 0.0f : biases[c];
  }
  PRIVGRAD_HD void store(uint64_t, uint64_t i, uint64_t c, float sum) const {
    out[i * columns + c] = sum;
  }
};

/// Each example's gradient of the weights: sum over places of delta[t, c] pixel(t, p).
struct ConvGradient : FloatProduct {
  static constexpr bool kAByInner = false, kBByInner = false;
  Convolution conv;
  const float *in, *delta;
  float* gradients;  // `stride` floats from one example's to the next
  uint64_t stride;
  PRIVGRAD_HD float a(uint64_t e, uint64_t c, uint64_t t) const {
    return delta[e * conv.outputs() + t * rows + c];
  }
  PRIVGRAD_HD float b(uint64_t e, uint64_t t, uint64_t p) const {
    return conv.pixel(in + e * conv.inputs(), t, p);
  }
  PRIVGRAD_HD float start(uint64_t, uint64_t, uint64_t) const { return 0.0f; }
  PRIVGRAD_HD void store(uint64_t e, uint64_t c, uint64_t p, float sum) const {
    gradients[e * stride + c * columns + p] = sum;
  }
};

// --- Integer products.

/// The gradient of the weights in integers, from delta and pixels rounded such that no sum
/// overflows int32.
struct PlaceSums {
  using Number = int32_t;
  using Sum = int32_t;
  static constexpr bool kAByInner = false, kBByInner = false;
  PRIVGRAD_HD static int32_t add(int32_t a, int32_t b, int32_t sum) { return sum + a * b; }
  uint64_t rows, columns, inner, batches;
  Convolution conv;
  const float *in, *delta;
  const PlaceRoundings* roundings;  // the roundings of each example
  int32_t* sums;                    // [examples, channels, patch]
  PRIVGRAD_HD int32_t a(uint64_t e, uint64_t c, uint64_t t) const {
    return rounded(delta[e * conv.outputs() + t * rows + c], roundings[e].of_delta);
  }
  PRIVGRAD_HD int32_t b(uint64_t e, uint64_t t, uint64_t p) const {
    return rounded(conv.pixel(in + e * conv.inputs(), t, p), roundings[e].of_image);
  }
  PRIVGRAD_HD int32_t start(uint64_t, uint64_t, uint64_t) const { return 0; }
  PRIVGRAD_HD void store(uint64_t e, uint64_t c, uint64_t p, int32_t sum) const {
    sums[(e * rows + c) * columns + p] = sum;
  }
};

/// sum[u, k] += sum over the chosen examples of units[e, u] inputs[e, k], modulo 2^64. Products are
/// below 2^28 in absolute value.
struct CellProduct {
  using Number = int32_t;
  using Sum = uint64_t;
  static constexpr bool kAByInner = false, kBByInner = false;
  PRIVGRAD_HD static uint64_t add(int32_t a, int32_t b, uint64_t sum) {
    return sum + static_cast<uint64_t>(int64_t{a} * b);
  }
  uint64_t rows, columns, inner, batches;
  const int16_t *units, *inputs;
  const uint8_t* taken;
  uint64_t* sum;
  PRIVGRAD_HD int32_t a(uint64_t, uint64_t u, uint64_t e) const {
    return taken[e] != 0 ? units[e * rows + u] : 0;
  }
  PRIVGRAD_HD int32_t b(uint64_t, uint64_t e, uint64_t k) const { return inputs[e * columns + k]; }
  PRIVGRAD_HD uint64_t start(uint64_t, uint64_t u, uint64_t k) const {
    return sum[u * columns + k];
  }
  PRIVGRAD_HD void store(uint64_t, uint64_t u, uint64_t k, uint64_t value) const {
    sum[u * columns + k] = value;
  }
};

}  // namespace privgrad::cuda
