// Activations for kernels.
#pragma once

#include "device_code.hpp"
#include "privgrad/activations.hpp"

namespace privgrad::cuda {

struct Activate {
  uint64_t count;
  ActivationKind kind;
  const float* in;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const float x = in[i];
    switch (kind) {
      case ActivationKind::relu:
        out[i] = relu_fixed(x);
        return;
      case ActivationKind::tanh:
        out[i] = tanh_fixed(x);
        return;
      case ActivationKind::sigmoid:
        out[i] = sigmoid_fixed(x);
        return;
      case ActivationKind::gelu:
        out[i] = gelu_fixed(x);
        return;
      case ActivationKind::silu:
        out[i] = silu_fixed(x);
        return;
      case ActivationKind::gelu_tanh:
        out[i] = gelu_tanh_fixed(x);
        return;
    }
  }
};

struct ActivateBackward {
  uint64_t count;
  ActivationKind kind;
  const float *in, *out, *delta;
  float* below;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const float y = out[i];
    switch (kind) {
      case ActivationKind::relu:
        below[i] = relu_backward_fixed(y, delta[i]);
        return;
      case ActivationKind::tanh:
        below[i] = tanh_backward_fixed(y, delta[i]);
        return;
      case ActivationKind::sigmoid:
        below[i] = sigmoid_backward_fixed(y, delta[i]);
        return;
      case ActivationKind::gelu:
        below[i] = gelu_backward_fixed(in[i], delta[i]);
        return;
      case ActivationKind::silu:
        below[i] = silu_backward_fixed(in[i], delta[i]);
        return;
      case ActivationKind::gelu_tanh:
        below[i] = gelu_tanh_backward_fixed(in[i], delta[i]);
        return;
    }
  }
};

}  // namespace privgrad::cuda
