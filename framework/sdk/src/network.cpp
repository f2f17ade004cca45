#include "privgrad/network.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/names.hpp"
#include "privgrad/params.hpp"
#include "privgrad/value.hpp"

namespace privgrad {
namespace {

template <class Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

constexpr Names<Loss, 4> kLosses{{{Loss::cross_entropy, "cross_entropy"},
                                  {Loss::squared, "squared"},
                                  {Loss::logistic, "logistic"},
                                  {Loss::next_token, "next_token"}}};
constexpr Names<PoolKind, 2> kPools{{{PoolKind::max, "max"}, {PoolKind::average, "average"}}};

template <class Names, class Enum>
std::string_view name_of(const Names& names, Enum value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  throw ConfigError("value outside its enumeration");
}

template <class Names>
auto value_of(const Names& names, std::string_view what, std::string_view text) {
  std::vector<std::string> all;
  for (const auto& [value, name] : names) {
    if (name == text) return value;
    all.emplace_back(name);
  }
  throw ConfigError("'" + std::string(text) + "' is not a known " + std::string(what) +
                    "; the choices are " + listed(all) + did_you_mean(text, all));
}

// Sizes below this can be added and doubled without overflow; element_count() checks products.
constexpr std::size_t kLargest = std::size_t{1} << 31;

/// Why a layer cannot accept its input; becomes one ConfigError that names the layer.
struct Misfit {
  std::string why;
};

void need(bool holds, const char* why) {
  if (!holds) throw Misfit{why};
}

void need_size(std::size_t size, const char* why) { need(size > 0 && size < kLargest, why); }

Shape image_shape(const Shape& shape) {
  need(shape.size() == 2 || shape.size() == 3,
       "needs an image, [height, width] or [height, width, channels]");
  return {shape[0], shape[1], shape.size() == 3 ? shape[2] : 1};
}

std::size_t windows(std::size_t extent, std::size_t padding, std::size_t window,
                    std::size_t stride) {
  need(extent + 2 * padding >= window, "has a window that is larger than the image");
  return (extent + 2 * padding - window) / stride + 1;
}

std::size_t channels_of(const Shape& shape) {
  need(!shape.empty(), "needs at least one extent");
  return shape.back();
}

Shape output_of(const Dense& layer, const Shape& in) {
  need_size(layer.units, "has no units; it needs at least 1 and fewer than 2^31");
  if (!layer.per_place) return {layer.units};
  channels_of(in);
  Shape out = in;
  out.back() = layer.units;
  return out;
}

Shape output_of(const Activation& layer, const Shape& in) {
  to_text(layer.kind);  // throws for a kind outside the enumeration
  return in;
}

Shape output_of(const Conv2d& layer, const Shape& in) {
  const Shape image = image_shape(in);
  need_size(layer.channels, "has no channels; it needs at least 1 and fewer than 2^31");
  need_size(layer.kernel, "has a kernel of 0; it needs at least 1 and less than 2^31");
  need_size(layer.stride, "has a stride of 0; it needs at least 1 and less than 2^31");
  need(layer.padding < layer.kernel, "has a padding that is not below its kernel");
  return {windows(image[0], layer.padding, layer.kernel, layer.stride),
          windows(image[1], layer.padding, layer.kernel, layer.stride), layer.channels};
}

Shape output_of(const Pool& layer, const Shape& in) {
  to_text(layer.kind);
  const Shape image = image_shape(in);
  need_size(layer.window, "has a window of 0; it needs at least 1 and less than 2^31");
  need_size(layer.stride, "has a stride of 0; it needs at least 1 and less than 2^31");
  return {windows(image[0], 0, layer.window, layer.stride),
          windows(image[1], 0, layer.window, layer.stride), image[2]};
}

Shape output_of(const Flatten&, const Shape& in) { return {element_count(in)}; }

void need_epsilon(double epsilon) {
  need(epsilon > 0.0 && std::isfinite(epsilon), "has an epsilon that is not finite and above 0");
}

Shape output_of(const GroupNorm& layer, const Shape& in) {
  need(layer.groups > 0 && channels_of(in) % layer.groups == 0,
       "has a number of groups that does not divide the channels");
  need_epsilon(layer.epsilon);
  return in;
}

Shape output_of(const LayerNorm& layer, const Shape& in) {
  channels_of(in);
  need_epsilon(layer.epsilon);
  return in;
}

Shape output_of(const Embedding& layer, const Shape& in) {
  need(in.size() == 1, "needs a sequence of tokens, [length]");
  need(layer.vocabulary > 0 && layer.vocabulary <= (std::size_t{1} << 24),
       "has a vocabulary outside [1, 2^24], where float32 holds every token");
  need_size(layer.width, "has no width; it needs at least 1 and less than 2^31");
  return {in[0], layer.width};
}

Shape output_of(const Scale& layer, const Shape& in) {
  need(std::isfinite(static_cast<float>(layer.factor)), "has a factor that float32 cannot hold");
  return in;
}

Shape output_of(const PartOf& layer, const Shape& in) {
  const std::size_t extent = channels_of(in);
  need(layer.size > 0 && layer.first < extent && layer.size <= extent - layer.first,
       "must have at least one element, and end within the last extent");
  Shape out = in;
  out.back() = layer.size;
  return out;
}

Shape output_of(const Reshape& layer, const Shape& in) {
  need(!layer.shape.empty() && element_count(layer.shape) == element_count(in),
       "has another number of elements");
  return layer.shape;
}

using Inputs = std::vector<Shape>;

Shape output_of(const RmsNorm& layer, const Shape& in) {
  channels_of(in);
  need_epsilon(layer.epsilon);
  return in;
}

Shape output_of(const ElementwiseProduct&, const Inputs& in) {
  need(in.size() == 2 && in[0] == in[1], "needs two values of one shape");
  return in.front();
}

Shape output_of(const TokenMask&, const Shape& in) {
  need(in.size() == 1, "needs a sequence of tokens, [length]");
  return in;
}

Shape output_of(const Positions&, const Shape& in) {
  channels_of(in);
  return in;
}

Shape sequence_shape(const Shape& shape) {
  need(shape.size() == 2, "needs a sequence, [length, width]");
  return shape;
}

Shape output_of(const Prepend&, const Shape& in) {
  const Shape sequence = sequence_shape(in);
  need_size(sequence[0] + 1, "makes too long a sequence; the limit is 2^31 places");
  return {sequence[0] + 1, sequence[1]};
}

/// \param mask  the index of the mask among the inputs, if the layer has one.
void need_mask(const Inputs& in, std::size_t mask, const char* why) {
  need(in.size() == mask || (in.size() == mask + 1 && in[mask] == Shape{in[0][0]}), why);
}

Shape output_of(const MeanOfPlaces&, const Inputs& in) {
  const Shape sequence = sequence_shape(in.front());
  need_mask(in, 1, "needs a sequence, [length, width], and perhaps a mask, [length]");
  return {sequence[1]};
}

Shape output_of(const PickPlace& layer, const Inputs& in) {
  const Shape sequence = sequence_shape(in.front());
  need_mask(in, 1, "needs a sequence, [length, width], and perhaps a mask, [length]");
  need(layer.last || in.size() == 1, "has a mask, but a mask only helps to find the last place");
  need(!layer.last || layer.place == 0, "must not name a place as well as `last`");
  need(layer.place < sequence[0], "picks a place after the end of the sequence");
  return {sequence[1]};
}

/// The most places of a sequence in attention: each head has a probability for each pair of them.
constexpr std::size_t kMostPlaces = 4096;

Shape output_of(const Attention& layer, const Inputs& in) {
  const Shape sequence = sequence_shape(in.front());
  need(sequence[0] <= kMostPlaces,
       "has a sequence of more than 4096 places; its memory grows with their square");
  need_size(layer.heads, "has no heads; it needs at least 1 and fewer than 2^31");
  need(layer.key_heads > 0 && layer.heads % layer.key_heads == 0,
       "has a number of key heads that does not divide its heads");
  need(sequence[1] % layer.heads == 0, "has a number of heads that does not divide the width");
  const std::size_t width = sequence[1] / layer.heads;
  const Shape keys{sequence[0], layer.key_heads * width};
  need(in.size() > 2 && in[1] == keys && in[2] == keys,
       "needs queries [length, heads w], keys and values [length, key_heads w] each");
  need_mask(in, 3, "needs queries, keys, values and perhaps a mask, [length]");
  need(layer.rotary == 0.0 || (layer.rotary > 1.0 && std::isfinite(layer.rotary)),
       "has a rotary base that is neither 0 nor finite and above 1");
  need(layer.rotary == 0.0 || width % 2 == 0,
       "has heads of odd width, but rotary positions need an even width");
  return in.front();
}

Shape output_of(const Add&, const Inputs& in) {
  need(in.size() > 1, "needs two values or more");
  for (const Shape& other : in) need(other == in.front(), "needs values of one shape");
  return in.front();
}

template <class One>
Shape output_of(const One& layer, const Inputs& in) {
  need(in.size() == 1, "needs a single value");
  return output_of(layer, in.front());
}

/// Returns the blocks of one layer, without node and offset, and named without the node.
std::vector<ParameterBlock> blocks_of(const Layer& layer, const Shape& in) {
  std::vector<ParameterBlock> blocks;
  const auto add = [&](std::string name, Shape shape, std::size_t fan_in = 0,
                       std::size_t fan_out = 0, float initial = 0.0f) {
    blocks.push_back({.name = std::move(name),
                      .shape = std::move(shape),
                      .fan_in = fan_in,
                      .fan_out = fan_out,
                      .initial = initial});
  };
  if (const auto* dense = std::get_if<Dense>(&layer)) {
    const std::size_t inputs = dense->per_place ? in.back() : element_count(in);
    add("weight", {dense->units, inputs}, inputs, dense->units);
    if (!dense->no_bias) add("bias", {dense->units});
  } else if (const auto* conv = std::get_if<Conv2d>(&layer)) {
    const std::size_t area = conv->kernel * conv->kernel;
    const std::size_t channels = image_shape(in)[2];
    add("weight", {conv->channels, conv->kernel, conv->kernel, channels},
        element_count({area, channels}), element_count({area, conv->channels}));
    if (!conv->no_bias) add("bias", {conv->channels});
  } else if (std::holds_alternative<GroupNorm>(layer) || std::holds_alternative<LayerNorm>(layer)) {
    add("weight", {in.back()}, 0, 0, 1.0f);
    add("bias", {in.back()});
  } else if (std::holds_alternative<RmsNorm>(layer)) {
    add("weight", {in.back()}, 0, 0, 1.0f);
  } else if (const auto* embedding = std::get_if<Embedding>(&layer)) {
    add("weight", {embedding->vocabulary, embedding->width}, 1, embedding->width);
  } else if (std::holds_alternative<Positions>(layer)) {
    add("weight", in, 1, in.back());
  } else if (std::holds_alternative<Prepend>(layer)) {
    add("weight", {in.back()}, 1, in.back());
  }
  return blocks;
}

/// Returns the blocks that a node has if it shares no other node's parameters.
std::vector<ParameterBlock> own_blocks(const Network& network, std::size_t i,
                                       const std::vector<Shape>& shapes) {
  return blocks_of(network.nodes[i].layer, shapes[inputs_of(network, i).front()]);
}

void check_sharing(const Network& network, std::size_t i, const std::vector<Shape>& shapes) {
  const std::size_t owner = *network.nodes[i].shares;
  const auto need_of_node = [&](bool holds, const std::string& what) {
    if (!holds)
      throw ConfigError("layer " + std::to_string(i) + ", " + to_text(network.nodes[i].layer) +
                        ", shares the parameters of " + what);
  };
  need_of_node(owner < i, "a node that does not come before it");
  const std::string name = privgrad::name_of(network, owner);
  need_of_node(!network.nodes[owner].shares,
               name + ", which itself shares the parameters of another node");
  const auto shapes_of = [&](std::size_t node) {
    std::vector<Shape> all;
    for (const ParameterBlock& block : own_blocks(network, node, shapes))
      all.push_back(block.shape);
    return all;
  };
  const auto own = shapes_of(i);
  need_of_node(!own.empty(), name + ", and needs none");
  need_of_node(own == shapes_of(owner), name + ", whose tensors have other shapes");
}

/// Returns the blocks of all trained nodes, or of all frozen nodes.
std::vector<ParameterBlock> blocks_where(const Network& network, bool are_frozen) {
  const std::vector<Shape> shapes = value_shapes(network);
  std::vector<ParameterBlock> blocks;
  std::set<std::string> names;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    const Node& node = network.nodes[i];
    if (node.shares) {
      check_sharing(network, i, shapes);
      continue;
    }
    for (ParameterBlock& block : own_blocks(network, i, shapes)) {
      block.name = name_of(network, i) + "." + block.name;
      if (!names.insert(block.name).second)
        throw ConfigError("two tensors of the network have the name " + block.name);
      if (node.is_frozen != are_frozen) continue;
      block.node = i;
      block.offset = offset;
      if (__builtin_add_overflow(offset, element_count(block.shape), &offset))
        throw ConfigError("the network has too many parameters");
      blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

std::size_t size_of(const std::vector<ParameterBlock>& blocks) {
  return blocks.empty() ? 0 : blocks.back().offset + element_count(blocks.back().shape);
}

bool has_allowed_name(const Node& node) {
  constexpr std::size_t kLongest = 200;
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return node.name.size() <= kLongest && !node.name.starts_with("preprocessing.") &&
         std::ranges::all_of(node.name, is_allowed);
}

/// Returns the index of the mask among the layer's inputs; a layer with fewer inputs has no mask.
std::size_t mask_input(const Layer& layer) {
  if (std::holds_alternative<Attention>(layer)) return 3;
  if (std::holds_alternative<MeanOfPlaces>(layer) || std::holds_alternative<PickPlace>(layer))
    return 1;
  return static_cast<std::size_t>(-1);
}

bool needs_tokens(const Layer& layer) {
  return std::holds_alternative<Embedding>(layer) || std::holds_alternative<TokenMask>(layer);
}

/// The facts about a value besides its shape.
struct Origin {
  bool is_token = false;  ///< Made of features.
  bool is_mask = false;   ///< Made by a mask node.
};

/// \returns the origin of a layer's output, if `in` is the origin of its input.
Origin origin_behind(const Layer& layer, Origin in) {
  if (std::holds_alternative<TokenMask>(layer)) return {.is_token = false, .is_mask = true};
  const bool keeps = std::holds_alternative<PartOf>(layer) ||
                     std::holds_alternative<Reshape>(layer) ||
                     std::holds_alternative<Flatten>(layer);
  return keeps ? in : Origin{};
}

/// \param origins  the origin of each earlier value.
Shape output_of_node(const Network& network, std::size_t i, const std::vector<Shape>& shapes,
                     const std::vector<Origin>& origins) {
  const Node& node = network.nodes[i];
  const auto need_of_node = [&](bool holds, const char* what) {
    if (!holds) throw ConfigError(to_text(node.layer) + ", " + what);
  };
  if (!has_allowed_name(node)) {
    throw ConfigError(to_text(node.layer) + ", has the name '" + node.name.substr(0, 80) +
                      "'; names have at most 200 letters, digits, '_', '-' and '.', and do not "
                      "begin with 'preprocessing.', which is for transforms");
  }
  Inputs in;
  for (const std::size_t value : inputs_of(network, i)) {
    need_of_node(value <= i, "works on a value that no earlier node makes");
    need_of_node(!needs_tokens(node.layer) || origins[value].is_token,
                 "needs tokens as its input, not computed numbers");
    need_of_node(in.size() != mask_input(node.layer) || origins[value].is_mask,
                 "has a mask that was not made by a node of the kind mask");
    in.push_back(shapes[value]);
  }
  return output_shape(node.layer, in);
}

/// \throws ConfigError if a value other than the outputs is used by no node.
void check_use(const Network& network) {
  std::vector<bool> is_used(network.nodes.size() + 1, false);
  is_used.back() = true;
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    for (const std::size_t value : inputs_of(network, i)) is_used[value] = true;
  }
  const auto unused = std::ranges::find(is_used, false);
  if (unused == is_used.end()) return;
  if (unused == is_used.begin()) throw ConfigError("no node of the network uses the features");
  const auto node = static_cast<std::size_t>(unused - is_used.begin()) - 1;
  throw ConfigError("no node uses the output of node " + std::to_string(node) + ", " +
                    to_text(network.nodes[node].layer) + "; only the last output may be unused");
}

void check_class_weights(const Network& network) {
  const std::vector<double>& weights = network.class_weights;
  if (weights.empty()) return;
  if (weights.size() != network.input.classes) {
    throw ConfigError(
        "there are " + std::to_string(weights.size()) + " class weights, and the data " +
        (network.input.classes == 0 ? "has real targets"
                                    : "has " + std::to_string(network.input.classes) + " classes"));
  }
  for (const double weight : weights) {
    if (!(weight > 0.0 && std::isfinite(static_cast<float>(weight))))
      throw ConfigError("the class weight " + format_number(weight) +
                        " is not a number above 0 that float32 holds");
  }
}

void check_next_token(const Network& network) {
  const Shape& tokens = network.input.features;
  const Shape outputs = value_shapes(network).back();
  if (network.input.classes == 0 && tokens.size() == 1 && outputs.size() == 2 && outputs[0] > 1 &&
      outputs[0] <= tokens[0] && outputs[1] > 1) {
    return;
  }
  throw ConfigError(
      "the loss next_token needs features that are tokens, [length], outputs [length, vocabulary] "
      "for at least two places and two tokens, and data without classes; the features are " +
      to_text(tokens) + ", the outputs " + to_text(outputs) + ", and the data has " +
      (network.input.classes == 0 ? "no" : std::to_string(network.input.classes)) + " classes");
}

}  // namespace

std::string_view to_text(Loss loss) { return name_of(kLosses, loss); }
Loss loss_from_text(std::string_view text) { return value_of(kLosses, "loss", text); }
std::string_view to_text(ActivationKind activation) { return name_of(kActivations, activation); }
ActivationKind activation_from_text(std::string_view text) {
  return value_of(kActivations, "activation", text);
}
std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const auto& [kind, name] : kActivations) names.emplace_back(name);
  return names;
}

std::string_view to_text(PoolKind pool) { return name_of(kPools, pool); }
PoolKind pool_from_text(std::string_view text) { return value_of(kPools, "pooling", text); }

std::vector<std::size_t> inputs_of(const Network& network, std::size_t node) {
  const std::vector<std::size_t>& from = network.nodes[node].from;
  return from.empty() ? std::vector<std::size_t>{node} : from;
}

std::string name_of(const Network& network, std::size_t node) {
  const std::string& name = network.nodes[node].name;
  return name.empty() ? "layers." + std::to_string(node) : name;
}

std::size_t owner_of(const Network& network, std::size_t node) {
  return network.nodes[node].shares.value_or(node);
}

bool is_plain_chain(const Network& network) {
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    const Node& node = network.nodes[i];
    if (node.is_frozen || node.shares || inputs_of(network, i) != std::vector<std::size_t>{i})
      return false;
  }
  return network.class_weights.empty() && network.loss != Loss::next_token;
}

Shape output_shape(const Layer& layer, const std::vector<Shape>& inputs) {
  try {
    const Shape out = std::visit([&](const auto& one) { return output_of(one, inputs); }, layer);
    element_count(out);
    return out;
  } catch (const Misfit& misfit) {
    std::string entering;
    for (const Shape& in : inputs) entering += (entering.empty() ? "" : " and ") + to_text(in);
    throw ConfigError(to_text(layer) + ", " + misfit.why + "; its input is " + entering);
  }
}

std::vector<Shape> value_shapes(const Network& network) {
  std::vector<Shape> shapes{network.input.features};
  std::vector<Origin> origins{{.is_token = true, .is_mask = false}};
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    try {
      shapes.push_back(output_of_node(network, i, shapes, origins));
      origins.push_back(
          origin_behind(network.nodes[i].layer, origins[inputs_of(network, i).front()]));
    } catch (const ConfigError& problem) {
      throw ConfigError("layer " + std::to_string(i) + ", " + problem.what());
    }
  }
  return shapes;
}

std::vector<ParameterBlock> parameter_blocks(const Network& network) {
  return blocks_where(network, false);
}

std::vector<ParameterBlock> frozen_blocks(const Network& network) {
  return blocks_where(network, true);
}

std::size_t vocabulary_of(const Network& network) {
  std::size_t smallest = network.loss == Loss::next_token ? value_shapes(network).back().back() : 0;
  for (const Node& node : network.nodes) {
    const auto* table = std::get_if<Embedding>(&node.layer);
    if (table != nullptr && (smallest == 0 || table->vocabulary < smallest))
      smallest = table->vocabulary;
  }
  return smallest;
}

double class_weight(const Network& network, float target) {
  const std::vector<double>& weights = network.class_weights;
  if (!(target >= 0.0f && target < static_cast<float>(weights.size()))) return 1.0;
  return weights[static_cast<std::size_t>(target)];
}

std::size_t parameter_count(const Network& network) { return size_of(parameter_blocks(network)); }

std::size_t output_count(const Network& network) {
  return element_count(value_shapes(network).back());
}

void check_network(const Network& network) {
  const std::size_t classes = network.input.classes;
  const std::size_t outputs = output_count(network);
  check_use(network);
  if (parameter_count(network) == 0) throw ConfigError("the network has no parameters to train");
  if (network.frozen.size() != size_of(frozen_blocks(network))) {
    throw ConfigError("the network has " + std::to_string(network.frozen.size()) +
                      " frozen parameters, and its frozen nodes need " +
                      std::to_string(size_of(frozen_blocks(network))));
  }
  check_class_weights(network);
  const auto fail = [&](const std::string& need) {
    throw ConfigError("the loss " + std::string(to_text(network.loss)) + " needs " + need +
                      "; the network has " + std::to_string(outputs) + " output(s) and the data " +
                      (classes == 0 ? "real targets" : std::to_string(classes) + " classes"));
  };
  switch (network.loss) {
    case Loss::cross_entropy:
      if (classes < 2 || outputs != classes) fail("one output per class, and at least two classes");
      break;
    case Loss::logistic:
      if (classes != 2 || outputs != 1) fail("two classes and one output");
      break;
    case Loss::squared:
      if (outputs != (classes == 0 ? 1 : classes))
        fail("one output per class, or one for a real target");
      break;
    case Loss::next_token:
      check_next_token(network);
      break;
  }
}

}  // namespace privgrad
