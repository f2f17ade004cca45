// The activations: their meaning and their names. Compilers of device code can read it, too.
#pragma once

namespace privgrad {

/// Functions of each element by itself. A NaN passes through every one: an example that went wrong
/// must not look right.
enum class ActivationKind {
  relu = 1,  ///< max(x, 0)
  tanh,
  sigmoid,  ///< 1 / (1 + exp(-x))
  gelu,     ///< x (1 + erf(x / sqrt(2))) / 2, no approximation by tanh. Hendrycks and Gimpel 2016.
};

/// What an activation is called in manifests and model files.
struct ActivationName {
  ActivationKind kind;
  const char* name;
};

inline constexpr ActivationName kActivations[] = {{ActivationKind::relu, "relu"},
                                                  {ActivationKind::tanh, "tanh"},
                                                  {ActivationKind::sigmoid, "sigmoid"},
                                                  {ActivationKind::gelu, "gelu"}};

}  // namespace privgrad
