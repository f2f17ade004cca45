// The layers, losses and parameter layout of a network, for models and backends.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "privgrad/activations.hpp"
#include "privgrad/dataset.hpp"
#include "privgrad/export.hpp"

namespace privgrad {

// Images have the shape [height, width, channels], or [height, width] with one channel; Embedding
// turns sequences of tokens [length] into [length, width]. The comment of each layer defines it for
// a single example.
//
// Each layer has a name, kKind, and members(), which calls use(name, member) for each of its
// members, so that model files can be written and read without knowing the kinds. A bool that is
// false is not written.

/// y = W x + b, with W of shape [units, inputs] and b of shape [units]; flattens its input, or
/// works at each place separately: y[t] = W x[t] + b, with t over all extents but the last.
struct Dense {
  std::size_t units = 0;
  bool per_place = false;
  bool no_bias = false;  ///< Whether b is absent.

  static constexpr std::string_view kKind = "dense";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("units", self.units);
    use("per_place", self.per_place);
    use("no_bias", self.no_bias);
  }
};

/// An elementwise function.
struct Activation {
  ActivationKind kind = ActivationKind::relu;

  static constexpr std::string_view kKind = "activation";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("kind", self.kind);
  }
};

/// Cross-correlation of an image with square kernels:
///   y[i, j, c] = b[c] + sum over u, v < kernel and channels k of
///                W[c, u, v, k] x[i stride + u - padding, j stride + v - padding, k],
/// where x is 0 outside the image. W has the shape [channels, kernel, kernel, input channels], b
/// [channels]; each extent becomes floor((extent + 2 padding - kernel) / stride) + 1.
struct Conv2d {
  std::size_t channels = 0;
  std::size_t kernel = 0;
  std::size_t stride = 1;
  std::size_t padding = 0;  ///< Zeros on every side; below kernel, so every output has an input.
  bool no_bias = false;     ///< Whether b is absent.

  static constexpr std::string_view kKind = "conv2d";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("channels", self.channels);
    use("kernel", self.kernel);
    use("stride", self.stride);
    use("padding", self.padding);
    use("no_bias", self.no_bias);
  }
};

enum class PoolKind { max = 1, average };

/// The largest value, or the mean, of each square window, per channel; the gradient of a maximum
/// goes to the first of several equal values. Windows lie inside the image: each extent becomes
/// floor((extent - window) / stride) + 1.
struct Pool {
  PoolKind kind = PoolKind::max;
  std::size_t window = 0;
  std::size_t stride = 0;

  static constexpr std::string_view kKind = "pool";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("kind", self.kind);
    use("window", self.window);
    use("stride", self.stride);
  }
};

/// Replaces all extents by a single one.
struct Flatten {
  static constexpr std::string_view kKind = "flatten";
  template <class Self, class Use>
  static void members(Self&, const Use&) {}
};

/// (x - mean) / sqrt(variance + epsilon) * weight[c] + bias[c], with mean and (biased) variance
/// over all places and the channels of a group: channel c, an index into the last extent, belongs
/// to group c / (channels / groups). weight and bias have the shape [channels]. Wu and He 2018.
struct GroupNorm {
  std::size_t groups = 1;  ///< Must divide the number of channels.
  double epsilon = 1e-5;

  static constexpr std::string_view kKind = "group_norm";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("groups", self.groups);
    use("epsilon", self.epsilon);
  }
};

/// Like GroupNorm, but with mean and variance over the last extent, at each place separately. Ba,
/// Kiros and Hinton 2016.
struct LayerNorm {
  double epsilon = 1e-5;

  static constexpr std::string_view kKind = "layer_norm";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("epsilon", self.epsilon);
  }
};

/// The token that fills up sequences that are shorter than the features, at their end.
inline constexpr float kEmptyPlace = -1.0f;

/// y[t] = W[x[t]], with W of shape [vocabulary, width], at each place t. Tokens have no gradient,
/// so the tokens x must be the features or a part of them. Each token is a whole number below
/// vocabulary, or kEmptyPlace, for which y[t] is zeros and has no gradient. For any other value,
/// y[t] is NaN, so the gradient of the example is not finite.
struct Embedding {
  std::size_t vocabulary = 0;
  std::size_t width = 0;

  static constexpr std::string_view kKind = "embedding";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("vocabulary", self.vocabulary);
    use("width", self.width);
  }
};

/// The sum of two or more values of one shape, added in float32 from left to right: the end of a
/// residual block. He, Zhang, Ren and Sun 2016.
struct Add {
  static constexpr std::string_view kKind = "add";
  template <class Self, class Use>
  static void members(Self&, const Use&) {}
};

/// The elementwise product of two values of the same shape, in float32.
struct ElementwiseProduct {
  static constexpr std::string_view kKind = "multiply";
  template <class Self, class Use>
  static void members(Self&, const Use&) {}
};

/// x / sqrt(mean of x^2 + epsilon) * weight[c], with the mean over the last extent, at each place
/// separately; weight has the shape [channels]. Zhang and Sennrich 2019.
struct RmsNorm {
  double epsilon = 1e-5;

  static constexpr std::string_view kKind = "rms_norm";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("epsilon", self.epsilon);
  }
};

/// factor * x, elementwise.
struct Scale {
  double factor = 1.0;  ///< Finite; rounded to float32.

  static constexpr std::string_view kKind = "scale";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("factor", self.factor);
  }
};

/// Elements [first, first + size) of the last extent.
struct PartOf {
  std::size_t first = 0;
  std::size_t size = 0;

  static constexpr std::string_view kKind = "part";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("first", self.first);
    use("size", self.size);
  }
};

/// The same elements, row-major, with other extents.
struct Reshape {
  Shape shape;

  static constexpr std::string_view kKind = "reshape";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("shape", self.shape);
  }
};

/// 1 at each place whose token is not kEmptyPlace, and 0 at the others. The input is tokens, as for
/// Embedding. The masks that other layers use can only come from this layer.
struct TokenMask {
  static constexpr std::string_view kKind = "mask";
  template <class Self, class Use>
  static void members(Self&, const Use&) {}
};

/// x + W, where W has the shape of x: adds a trained vector to each place of a sequence.
struct Positions {
  static constexpr std::string_view kKind = "positions";
  template <class Self, class Use>
  static void members(Self&, const Use&) {}
};

/// Puts a trained row W of shape [width], such as a class token, before a sequence [length, width].
struct Prepend {
  static constexpr std::string_view kKind = "prepend";
  template <class Self, class Use>
  static void members(Self&, const Use&) {}
};

/// Softmax attention among the places of q [length, heads w], k and v [length, key_heads w], and
/// perhaps a mask [length]. Head h of q and of the output y (the columns [h w, (h + 1) w)) reads
/// head g = h / (heads / key_heads) of k and v: y[t, h] = sum over s of p[t, s] v[s, g], with
/// p[t, s] = exp(a[t, s]) / sum over r of exp(a[t, r]), a[t, s] = q[t, h] . k[s, g] / sqrt(w), for
/// the places s and r whose mask is not 0 and, if causal, that are not after t. Without such places
/// y is 0. No parameters. Vaswani et al. 2017; Ainslie et al. 2023 for key_heads.
struct Attention {
  std::size_t heads = 1;      ///< Must divide the width of q.
  std::size_t key_heads = 1;  ///< Must divide heads.
  bool causal = false;
  /// 0: no rotary positions. Otherwise, before the products, the pair (x[i], x[i + w / 2]) of each
  /// head of q and k is turned at place t by the angle t rotary^(-2 i / w); w is even. Su et al.
  /// 2021.
  double rotary = 0.0;

  static constexpr std::string_view kKind = "attention";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("heads", self.heads);
    use("key_heads", self.key_heads);
    use("causal", self.causal);
    use("rotary", self.rotary);
  }
};

/// The mean [width] over the places of a sequence [length, width] or, with a mask [length], over
/// the places where the mask is not 0; zeros if there are none.
struct MeanOfPlaces {
  static constexpr std::string_view kKind = "mean";
  template <class Self, class Use>
  static void members(Self&, const Use&) {}
};

/// One place of a sequence [length, width]: [width].
struct PickPlace {
  std::size_t place = 0;
  /// True: picks the last place or, with a mask [length], the last place where the mask is not 0;
  /// the result is zeros if the mask has no such place.
  bool last = false;

  static constexpr std::string_view kKind = "pick";
  template <class Self, class Use>
  static void members(Self& self, const Use& use) {
    use("place", self.place);
    use("last", self.last);
  }
};

/// No layer mixes examples, as batch normalisation does: per-example gradients would not exist.
using Layer = std::variant<Dense, Activation, Conv2d, Pool, Flatten, GroupNorm, LayerNorm,
                           Embedding, Add, Scale, PartOf, Reshape, ElementwiseProduct, RmsNorm,
                           TokenMask, Positions, Prepend, Attention, MeanOfPlaces, PickPlace>;

/// Losses are per example; the loss of a batch is their mean, but gradients are never averaged
/// before clipping.
enum class Loss {
  cross_entropy = 1,  ///< Softmax of the outputs against a class index; outputs = classes.
  squared,            ///< 1/2 ||output - target||^2; a class index becomes its one-hot vector.
  logistic,  ///< ln(1 + exp(-y output)), one output, y = -1 for class 0 and +1 for class 1.
  /// For outputs [length, vocabulary]: the cross-entropy of the outputs at t against token t + 1,
  /// averaged over the places t whose next token is not kEmptyPlace; 0 if there is no such place.
  /// The tokens are the first `length` features; targets are not used, so the examples have no
  /// classes. A next token that is not below the vocabulary makes the loss NaN.
  next_token,
};

PRIVGRAD_API std::string_view to_text(Loss loss);
PRIVGRAD_API Loss loss_from_text(std::string_view text);  ///< \throws ConfigError
PRIVGRAD_API std::string_view to_text(ActivationKind activation);
PRIVGRAD_API ActivationKind activation_from_text(std::string_view text);  ///< \throws ConfigError
PRIVGRAD_API std::vector<std::string> activation_names();
PRIVGRAD_API std::string_view to_text(PoolKind pool);
PRIVGRAD_API PoolKind pool_from_text(std::string_view text);  ///< \throws ConfigError

/// \returns the layer in words: "conv2d 32 kernel 5 stride 1 padding 0".
PRIVGRAD_API std::string to_text(const Layer& layer);

/// One step of a network: a layer and the values that it works on. Value 0 is the features of an
/// example, and value i + 1 is the output of node i.
struct Node {
  Layer layer;
  /// Earlier values, one for each input of the layer; a value may occur more than once. Empty: the
  /// preceding value, which is the output of the preceding node, or the features.
  std::vector<std::size_t> from;
  /// NAME in the names of its parameters, NAME.weight and NAME.bias: letters, digits, '_', '-' and
  /// '.'. Empty: "layers.N", where N is the number of the node.
  std::string name;
  /// Whether its parameters are not trained but constants, stored in Network::frozen.
  bool is_frozen = false;
  /// The earlier node whose parameters this node uses instead of its own. The earlier node must not
  /// itself have `shares`, and its tensors must have the shapes that this node needs. For example,
  /// an output layer without biases can share a table of tokens (Press and Wolf 2017).
  std::optional<std::size_t> shares = std::nullopt;

  Node() = default;
  /// Converts a layer of any kind, so that a chain can be written as a list of layers.
  template <class Kind>
  requires std::constructible_from<Layer, Kind> Node(Kind one, std::vector<std::size_t> values = {},
                                                     std::string named = {})
      : layer(std::move(one)), from(std::move(values)), name(std::move(named)) {}
};

/// A model as data: any backend can execute it. The last value is the outputs; every other value is
/// used by some node.
struct Network {
  ExampleShape input;
  std::vector<Node> nodes;
  Loss loss = Loss::cross_entropy;
  /// The parameters of the frozen nodes, in the layout of frozen_blocks(). Models leave this empty,
  /// because only the core freezes nodes.
  std::vector<float> frozen = {};
  /// The factor of an example's loss for each class: [classes], finite and above 0; empty: 1. There
  /// is no division by a sum of weights, so an example's loss does not depend on other examples.
  std::vector<double> class_weights = {};
};

/// \returns the weight of an example with this target: 1 without class_weights, or if the target is
///   not a class.
PRIVGRAD_API double class_weight(const Network& network, float target);

/// \returns the values that a node works on, at least one.
PRIVGRAD_API std::vector<std::size_t> inputs_of(const Network& network, std::size_t node);

/// \returns the node's name, or "layers.N" if it has none.
PRIVGRAD_API std::string name_of(const Network& network, std::size_t node);

/// \returns the node whose parameters a node uses: itself, unless it shares another node's
///   parameters.
PRIVGRAD_API std::size_t owner_of(const Network& network, std::size_t node);

/// \returns whether each node works on the preceding value, no node is frozen or shares parameters,
///   no class has a weight, and the loss uses a target. A backend that only executes layers one
///   after another may require this.
PRIVGRAD_API bool is_plain_chain(const Network& network);

/// One tensor of the parameters.
struct ParameterBlock {
  std::string name;         ///< For example "layers.0.weight", as in the saved model.
  std::size_t node = 0;     ///< The node that it belongs to.
  Shape shape;              ///< Row-major.
  std::size_t offset = 0;   ///< First element in the flat parameter vector.
  std::size_t fan_in = 0;   ///< Inputs per unit, for initialisation; 0 if nothing is drawn.
  std::size_t fan_out = 0;  ///< Number of units that each input affects, counted like fan_in.
  float initial = 0.0f;     ///< Initial value of a block with fan_in 0: 0 for biases, 1 for the
                            ///< weights of norms.
};

/// \returns the shape of the layer's output for inputs of these shapes.
/// \throws ConfigError that says why the layer cannot process them.
PRIVGRAD_API Shape output_shape(const Layer& layer, const std::vector<Shape>& inputs);

/// Returns the shape of each value: the features, and the output of each node; [nodes + 1].
/// \throws ConfigError that names the first node that cannot process its input.
PRIVGRAD_API std::vector<Shape> value_shapes(const Network& network);

/// Returns the layout of the flat vector of trained parameters: blocks in order, without gaps.
/// \throws ConfigError like value_shapes(), or if two tensors have the same name.
PRIVGRAD_API std::vector<ParameterBlock> parameter_blocks(const Network& network);

/// The layout of Network::frozen: the parameters of the frozen nodes, in order, without gaps.
PRIVGRAD_API std::vector<ParameterBlock> frozen_blocks(const Network& network);

/// \returns the smallest vocabulary among the network's embeddings and its loss: every token must
///   be below it. 0 if the network takes no tokens.
PRIVGRAD_API std::size_t vocabulary_of(const Network& network);

/// \returns the number of trained parameters.
PRIVGRAD_API std::size_t parameter_count(const Network& network);

/// \returns the number of outputs of the last node.
/// \throws ConfigError like value_shapes().
PRIVGRAD_API std::size_t output_count(const Network& network);

/// \throws ConfigError if a node cannot process its input, if nothing uses a value, if there are no
///   parameters to train, if the number of frozen parameters does not match frozen_blocks(), if the
///   class weights do not fit the classes, or if outputs, loss and targets do not fit each other.
PRIVGRAD_API void check_network(const Network& network);

}  // namespace privgrad
