// The activations: their definitions and names. Compilers for device code can read this header.
#pragma once

namespace privgrad {

/// Elementwise functions. Each of them maps NaN to NaN, so that an example with an error never
/// looks valid.
enum class ActivationKind {
  relu = 1,  ///< max(x, 0)
  tanh,
  sigmoid,    ///< 1 / (1 + exp(-x))
  gelu,       ///< x (1 + erf(x / sqrt(2))) / 2, without tanh. Hendrycks and Gimpel 2016.
  silu,       ///< x / (1 + exp(-x)). Elfwing, Uchibe and Doya 2018.
  gelu_tanh,  ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, near gelu.
};

/// The name of an activation in manifests and model files.
struct ActivationName {
  ActivationKind kind;
  const char* name;
};

inline constexpr ActivationName kActivations[] = {
    {ActivationKind::relu, "relu"},       {ActivationKind::tanh, "tanh"},
    {ActivationKind::sigmoid, "sigmoid"}, {ActivationKind::gelu, "gelu"},
    {ActivationKind::silu, "silu"},       {ActivationKind::gelu_tanh, "gelu_tanh"}};

}  // namespace privgrad
