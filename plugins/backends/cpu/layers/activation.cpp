// Elementwise functions, with the same bits on every processor (loops.hpp).
#include <bit>
#include <cmath>
#include <cstdint>

#include "instruction_loops.hpp"
#include "layers/make_step.hpp"

namespace privgrad::cpu {
namespace {

// Each activation, and the product of delta with its derivative: from its value y, or from its
// input. Every one preserves NaN.

PRIVGRAD_INLINE void relu_body(const float* in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = in[i] <= 0.0f ? 0.0f : in[i];
}

PRIVGRAD_INLINE void relu_backward_body(const float* y, std::size_t count, float* delta) {
  for (std::size_t i = 0; i < count; ++i) delta[i] = y[i] == 0.0f ? 0.0f : delta[i];
}

/// e^x for x <= 0, to about one unit in the last place; e^-87 (1.6e-38) below -87; NaN for NaN.
///
/// x = n ln 2 + r with |r| <= ln(2) / 2, ln 2 in two parts so that r keeps its digits; e^r by a
/// Chebyshev fit with a relative error of 8e-9.
PRIVGRAD_INLINE float exp_of_negative(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to whole numbers
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
  // 2^n: its exponent from the low bits of `shifted`.
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;
  return p * std::bit_cast<float>(exponent);
}

PRIVGRAD_INLINE void tanh_body(const float* in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const float x = in[i];
    const float size = std::abs(x);
    // Near 0, a Chebyshev fit of (tanh(x) / x - 1) / x^2, with an error below 1e-8 relative to
    // tanh.
    const float z = x * x;
    float p = 0x1.22c3dap-9f;
    p = p * z - 0x1.0f312ap-7f;
    p = p * z + 0x1.644fd6p-6f;
    p = p * z - 0x1.ba031ap-5f;
    p = p * z + 0x1.1110dap-3f;
    p = p * z - 0x1.555556p-2f;
    const float near = x + x * (z * p);
    const float e = exp_of_negative(-2.0f * size);
    const float far = std::copysign((1.0f - e) / (1.0f + e), x);
    out[i] = size < 0.65f ? near : far;
  }
}

PRIVGRAD_INLINE void sigmoid_body(const float* in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const float e = exp_of_negative(-std::abs(in[i]));
    out[i] = (in[i] < 0.0f ? e : 1.0f) / (1.0f + e);
  }
}

PRIVGRAD_INLINE void tanh_backward_body(const float* y, std::size_t count, float* delta) {
  for (std::size_t i = 0; i < count; ++i) delta[i] *= (1.0f - y[i]) * (1.0f + y[i]);
}

PRIVGRAD_INLINE void sigmoid_backward_body(const float* y, std::size_t count, float* delta) {
  for (std::size_t i = 0; i < count; ++i) delta[i] *= y[i] * (1.0f - y[i]);
}

/// The parts of the normal distribution at x: its density times sqrt(2 pi), e^(-z^2/2) with z =
/// |x|, and the probability beyond z divided by that.
struct NormalParts {
  double density, tail;
};

/// z is cut off at 16, beyond which the result vanishes in float32. The density to 2^-36: z^2/2 = n
/// ln 2 + r as in exp_of_negative(), e^r by its series up to r^9. The tail, e^(z^2/2) erfc(z /
/// sqrt(2)) / 2, which is between 0.5 and 0.02, by t times a Chebyshev fit in t = 1 / (1 + z/3)
/// with a relative error of 1.3e-9.
PRIVGRAD_INLINE NormalParts normal_parts(double x) {
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
  const std::uint64_t exponent = (std::bit_cast<std::uint64_t>(shifted) + 1023u) << 52;
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
  return {p * std::bit_cast<double>(exponent), q * t};
}

PRIVGRAD_INLINE void gelu_body(const float* in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    double x = static_cast<double>(in[i]);
    x = x < -16.0 ? -16.0 : x;
    const NormalParts parts = normal_parts(x);
    const double beyond = parts.density * parts.tail;
    out[i] = static_cast<float>(x * (x < 0.0 ? beyond : 1.0 - beyond));
  }
}

/// The derivative is Phi(x) + x phi(x).
PRIVGRAD_INLINE void gelu_backward_body(const float* in, std::size_t count, float* delta) {
  constexpr double kDensity = 0x1.9884533d43651p-2;  // 1 / sqrt(2 pi)
  for (std::size_t i = 0; i < count; ++i) {
    double x = static_cast<double>(in[i]);
    x = x < -16.0 ? -16.0 : x;
    x = x > 16.0 ? 16.0 : x;
    const NormalParts parts = normal_parts(x);
    const double beyond = parts.density * parts.tail;
    const double derivative = (x < 0.0 ? beyond : 1.0 - beyond) + x * (parts.density * kDensity);
    delta[i] = static_cast<float>(static_cast<double>(delta[i]) * derivative);
  }
}

PRIVGRAD_LOOP(void, relu, (const float* in, std::size_t count, float* out), (in, count, out))
PRIVGRAD_LOOP(void, relu_backward, (const float* y, std::size_t count, float* delta),
              (y, count, delta))
PRIVGRAD_LOOP(void, tanh, (const float* in, std::size_t count, float* out), (in, count, out))
PRIVGRAD_LOOP(void, tanh_backward, (const float* y, std::size_t count, float* delta),
              (y, count, delta))
PRIVGRAD_LOOP(void, sigmoid, (const float* in, std::size_t count, float* out), (in, count, out))
PRIVGRAD_LOOP(void, sigmoid_backward, (const float* y, std::size_t count, float* delta),
              (y, count, delta))
PRIVGRAD_LOOP(void, gelu, (const float* in, std::size_t count, float* out), (in, count, out))
PRIVGRAD_LOOP(void, gelu_backward, (const float* in, std::size_t count, float* delta),
              (in, count, delta))

/// A function whose derivative can be computed from its value, so that it works in place.
class InPlaceStep final : public Step {
 public:
  InPlaceStep(const Elementwise& function, const Place& place)
      : Step(place.in(), place.out), function_(function) {}

  bool works_in_place() const override { return true; }
  bool gives_output_away() const override { return false; }
  const Elementwise* function() const override { return &function_; }

  void forward(std::size_t count, const float* in, float* out, Scratch&) const override {
    function_.apply(in, count * inputs_, out);
  }
  float* backward(std::size_t count, const float*, const float* out, float* delta, float*,
                  Scratch&) const override {
    function_.hand_down(out, count * outputs_, delta);
    return delta;
  }

 private:
  Elementwise function_;
};

/// A function whose derivative needs its input, which is kept.
class FromInputStep final : public Step {
 public:
  FromInputStep(const Elementwise& function, const Place& place)
      : Step(place.in(), place.out), function_(function) {}

  void forward(std::size_t count, const float* in, float* out, Scratch&) const override {
    function_.apply(in, count * inputs_, out);
  }
  float* backward(std::size_t count, const float* in, const float*, float* delta, float*,
                  Scratch&) const override {
    function_.hand_down(in, count * inputs_, delta);
    return delta;
  }

 private:
  Elementwise function_;
};

}  // namespace

std::unique_ptr<Step> step_of(const Activation& layer, const Place& place) {
  switch (layer.kind) {
    case ActivationKind::relu:
      return std::make_unique<InPlaceStep>(Elementwise{relu, relu_backward}, place);
    case ActivationKind::tanh:
      return std::make_unique<InPlaceStep>(Elementwise{tanh, tanh_backward}, place);
    case ActivationKind::gelu:
      return std::make_unique<FromInputStep>(Elementwise{gelu, gelu_backward}, place);
    case ActivationKind::sigmoid:
      break;
  }
  return std::make_unique<InPlaceStep>(Elementwise{sigmoid, sigmoid_backward}, place);
}

}  // namespace privgrad::cpu
