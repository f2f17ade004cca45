#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

/// y = W x + b, with W of shape [units, inputs] and b of shape [units]; flattens its input.
struct Dense {
  std::size_t units = 0;
};

enum class ActivationKind { relu = 1, tanh, sigmoid };

/// Elementwise.
struct Activation {
  ActivationKind kind = ActivationKind::relu;
};

/// Parameters of a model with mathematics of its own (SelfExecuting); backends cannot execute it.
struct Opaque {
  struct Tensor {
    std::string name;
    Shape shape;
    std::size_t fan_in = 0;
  };
  std::vector<Tensor> tensors;
  std::size_t outputs = 0;
};

/// No layer mixes examples (as batch normalisation does): per-example gradients would not exist.
using Layer = std::variant<Dense, Activation, Opaque>;

/// Losses are per example; a batch's loss is their mean, its gradient is never averaged before
/// clipping.
enum class Loss {
  cross_entropy = 1,  ///< Softmax of the outputs against a class index; outputs = classes.
  squared,   ///< 1/2 ||output - target||^2; the target of a class index is its one-hot vector.
  logistic,  ///< ln(1 + exp(-y output)), one output, y = -1 for class 0 and +1 for class 1.
};

PRIVGRAD_API std::string_view to_text(Loss loss);
PRIVGRAD_API Loss loss_from_text(std::string_view text);  ///< \throws ConfigError
PRIVGRAD_API std::string_view to_text(ActivationKind activation);
PRIVGRAD_API ActivationKind activation_from_text(std::string_view text);  ///< \throws ConfigError

/// A model as data: any backend can execute it.
struct Network {
  ExampleShape input;
  std::vector<Layer> layers;
  Loss loss = Loss::cross_entropy;
};

/// One tensor among the parameters.
struct ParameterBlock {
  std::string name;        ///< "layers.0.weight", as in the saved model.
  Shape shape;             ///< Row-major.
  std::size_t offset = 0;  ///< First element in the flat parameter vector.
  std::size_t fan_in = 0;  ///< Inputs per unit, for initialisation; 0 for biases.
};

/// The layout of the flat parameter vector: blocks in order, without gaps.
PRIVGRAD_API std::vector<ParameterBlock> parameter_blocks(const Network& network);

PRIVGRAD_API std::size_t parameter_count(const Network& network);

/// \returns the number of outputs of the last layer.
PRIVGRAD_API std::size_t output_count(const Network& network);

/// \throws ConfigError if outputs, loss and targets do not fit each other.
PRIVGRAD_API void check_network(const Network& network);

}  // namespace privgrad
