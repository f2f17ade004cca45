// oneDNN's kernels on one thread, the reference for those of the backend `cpu`.
#pragma once

#include <cstddef>
#include <functional>

#include "privgrad/activations.hpp"

namespace privgrad::bench {

enum class Way { forwards = 1, backwards };

/// The values of a layer and the derivatives of the loss with respect to them: arrays of
/// `numbers` in rows of `row`. A layer with one input uses the first `in` and `below` only.
struct LayerValues {
  std::size_t numbers = 0, row = 0;
  float* in[2] = {};
  float* out = nullptr;
  float* delta = nullptr;  ///< The derivatives with respect to the output.
  float* below[2] = {};    ///< Those with respect to the inputs.
};

/// The kernels compute `out` forwards and `below` backwards, without derivatives of parameters. The
/// arrays must outlive them. \throws dnnl::error if oneDNN refuses one.
std::function<void()> onednn_activation(ActivationKind kind, Way way, const LayerValues& values);
std::function<void()> onednn_product(Way way, const LayerValues& values);

/// Softmax forwards, the reference for both ways: oneDNN 2 has no fast kernel for the way back
/// without AVX-512.
std::function<void()> onednn_softmax(const LayerValues& values);

/// Layer norm, the reference for every norm: oneDNN 2 has no other. Forwards it has a weight and a
/// bias for each number of a row. Backwards it has neither, because oneDNN 2 cannot leave out their
/// derivatives.
std::function<void()> onednn_norm(Way way, const LayerValues& values);

/// The rate of oneDNN's product of square matrices of this extent, in GFLOP/s.
double onednn_product_rate(int extent, const float* a, const float* b, float* c);

}  // namespace privgrad::bench
