// Activations for kernels, with the same bits as those of the backend `cpu`.
#pragma once

#include "device_code.hpp"
#include "privgrad/activations.hpp"

// The same operations in the same order as in the backend `cpu`, where the error bounds are stated:
// plugins/backends/cpu/layers/activation.cpp.
namespace privgrad::cuda {

/// e^x for x <= 0 in float32; NaN for NaN.
PRIVGRAD_HD float exp_of_negative(float x) {
  constexpr float kRound = 0x1.8p23f;
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 0x1.715476p+0f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
  float p = 0x1.6d4926p-10f;
  p = p * r + 0x1.121072p-7f;
  p = p * r + 0x1.5554e4p-5f;
  p = p * r + 0x1.5554d8p-3f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  const uint32_t exponent = (bits_of(shifted) + 127u) << 23;
  return p * float_of(exponent);
}

PRIVGRAD_HD float tanh_fixed(float x) {
  const float size = size_of(x);
  const float z = x * x;
  float p = 0x1.22c3dap-9f;
  p = p * z - 0x1.0f312ap-7f;
  p = p * z + 0x1.644fd6p-6f;
  p = p * z - 0x1.ba031ap-5f;
  p = p * z + 0x1.1110dap-3f;
  p = p * z - 0x1.555556p-2f;
  const float near = x + x * (z * p);
  const float e = exp_of_negative(-2.0f * size);
  const float far =
      float_of((bits_of((1.0f - e) / (1.0f + e)) & 0x7fffffffu) | (bits_of(x) & 0x80000000u));
  return size < 0.65f ? near : far;
}

PRIVGRAD_HD float sigmoid_fixed(float x) {
  const float e = exp_of_negative(-size_of(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/// The parts of the normal distribution at x: its density times sqrt(2 pi), e^(-z^2/2) with z =
/// |x|, and the probability beyond z divided by that.
struct NormalParts {
  double density, tail;
};

PRIVGRAD_HD NormalParts normal_parts(double x) {
  constexpr double kRound = 0x1.8p52;  // adding it rounds to whole numbers
  double z = x < 0.0 ? -x : x;
  z = z > 16.0 ? 16.0 : z;
  const double power = -0.5 * (z * z);
  const double shifted = power * 0x1.71547652b82fep0 + kRound;
  const double n = shifted - kRound;
  const double r = (power - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  double p = 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const uint64_t exponent = (bits_of(shifted) + 1023u) << 52;
  const double t = 1.0 / (1.0 + z / 3.0);
  double q = 0x1.3738d5a534f61p-6;
  q = q * t - 0x1.e25625809ef9ap-4;
  q = q * t + 0x1.2e645b0bc36cfp-2;
  q = q * t - 0x1.72df0883757d8p-2;
  q = q * t + 0x1.ad07d237538dbp-3;
  q = q * t - 0x1.73b5b787ec112p-4;
  q = q * t + 0x1.45479824a9643p-4;
  q = q * t + 0x1.524d2346b008fp-4;
  q = q * t + 0x1.e75e39d24cac2p-4;
  q = q * t + 0x1.1039aa7a4f3c8p-3;
  q = q * t + 0x1.10593780ab807p-3;
  return {p * double_of(exponent), q * t};
}

PRIVGRAD_HD float gelu_fixed(float in) {
  double x = in;
  x = x < -16.0 ? -16.0 : x;
  const NormalParts parts = normal_parts(x);
  const double beyond = parts.density * parts.tail;
  return static_cast<float>(x * (x < 0.0 ? beyond : 1.0 - beyond));
}

/// delta times the derivative.
PRIVGRAD_HD float gelu_backward(float in, float delta) {
  constexpr double kDensity = 0x1.9884533d43651p-2;  // 1 / sqrt(2 pi)
  double x = in;
  x = x < -16.0 ? -16.0 : x;
  x = x > 16.0 ? 16.0 : x;
  const NormalParts parts = normal_parts(x);
  const double beyond = parts.density * parts.tail;
  const double derivative = (x < 0.0 ? beyond : 1.0 - beyond) + x * (parts.density * kDensity);
  return static_cast<float>(static_cast<double>(delta) * derivative);
}

struct Activate {
  uint64_t count;
  ActivationKind kind;
  const float* in;
  float* out;
  PRIVGRAD_HD void operator()(uint64_t i) const {
    const float x = in[i];
    switch (kind) {
      case ActivationKind::relu:
        out[i] = x <= 0.0f ? 0.0f : x;
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
        below[i] = y == 0.0f ? 0.0f : delta[i];
        return;
      case ActivationKind::tanh:
        below[i] = delta[i] * ((1.0f - y) * (1.0f + y));
        return;
      case ActivationKind::sigmoid:
        below[i] = delta[i] * (y * (1.0f - y));
        return;
      case ActivationKind::gelu:
        below[i] = gelu_backward(in[i], delta[i]);
        return;
    }
  }
};

}  // namespace privgrad::cuda
