#include "privgrad/network.hpp"

#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/params.hpp"

namespace privgrad {
namespace {

template <class Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

constexpr Names<Loss, 3> kLosses{{{Loss::cross_entropy, "cross_entropy"},
                                  {Loss::squared, "squared"},
                                  {Loss::logistic, "logistic"}}};
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
  std::string listed;
  for (const auto& [value, name] : names) {
    if (name == text) return value;
    all.emplace_back(name);
    listed += (listed.empty() ? "" : ", ") + std::string(name);
  }
  const std::string nearest = nearest_name(text, all);
  throw ConfigError("'" + std::string(text) + "' is no " + std::string(what) + "; there are " +
                    listed + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

// Smaller sizes can be added and doubled without overflow; products go through element_count().
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

/// \param entering  the inputs of the layers up to this one.
Shape output_of(const Shortcut& layer, const std::vector<Shape>& entering) {
  need(layer.over > 0 && layer.over < entering.size(),
       "reaches back over no layer, or over more than there are before it");
  need_size(layer.stride, "has a stride of 0; it needs at least 1 and less than 2^31");
  const Shape& in = entering.back();
  const Shape& earlier = entering[entering.size() - 1 - layer.over];
  if (const auto projection = projection_of(layer, in, earlier)) {
    need(in.size() == 3, "adds shapes that differ, for which both need to be images");
    need(output_of(*projection, earlier) == in,
         "has a stride that does not bring the earlier image to the size of this one");
  }
  return in;
}

template <class Other>
Shape output_of(const Other& layer, const std::vector<Shape>& entering) {
  return output_of(layer, entering.back());
}

std::string words_of(const Dense& layer) {
  return "dense " + std::to_string(layer.units) + (layer.per_place ? " per place" : "");
}
std::string words_of(const Activation& layer) { return std::string(to_text(layer.kind)); }
std::string words_of(const Conv2d& layer) {
  return "conv2d " + std::to_string(layer.channels) + " kernel " + std::to_string(layer.kernel) +
         " stride " + std::to_string(layer.stride) + " padding " + std::to_string(layer.padding);
}
std::string words_of(const Pool& layer) {
  return std::string(to_text(layer.kind)) + " pool " + std::to_string(layer.window) + " stride " +
         std::to_string(layer.stride);
}
std::string words_of(const Flatten&) { return "flatten"; }
std::string words_of(const GroupNorm& layer) {
  return "group_norm " + std::to_string(layer.groups);
}
std::string words_of(const LayerNorm&) { return "layer_norm"; }
std::string words_of(const Embedding& layer) {
  return "embedding " + std::to_string(layer.vocabulary) + " x " + std::to_string(layer.width);
}
std::string words_of(const Shortcut& layer) {
  return "shortcut over " + std::to_string(layer.over) + " stride " + std::to_string(layer.stride);
}

/// The blocks of one layer, without offsets.
/// \param entering  the inputs of the layers up to this one.
std::vector<ParameterBlock> blocks_of(const Layer& layer, std::span<const Shape> entering) {
  const Shape& in = entering.back();
  const auto block = [](std::string name, Shape shape, std::size_t fan_in = 0,
                        std::size_t fan_out = 0, float initial = 0.0f) {
    return ParameterBlock{std::move(name), std::move(shape), 0, fan_in, fan_out, initial};
  };
  if (const auto* dense = std::get_if<Dense>(&layer)) {
    const std::size_t inputs = dense->per_place ? in.back() : element_count(in);
    return {block("weight", {dense->units, inputs}, inputs, dense->units),
            block("bias", {dense->units})};
  }
  if (const auto* conv = std::get_if<Conv2d>(&layer)) {
    const std::size_t area = conv->kernel * conv->kernel;
    const std::size_t channels = image_shape(in)[2];
    return {block("weight", {conv->channels, conv->kernel, conv->kernel, channels},
                  element_count({area, channels}), element_count({area, conv->channels})),
            block("bias", {conv->channels})};
  }
  if (std::holds_alternative<GroupNorm>(layer) || std::holds_alternative<LayerNorm>(layer)) {
    return {block("weight", {in.back()}, 0, 0, 1.0f), block("bias", {in.back()})};
  }
  if (const auto* embedding = std::get_if<Embedding>(&layer)) {
    return {block("weight", {embedding->vocabulary, embedding->width}, 1, embedding->width)};
  }
  if (const auto* shortcut = std::get_if<Shortcut>(&layer)) {
    const auto before = entering.first(entering.size() - shortcut->over);
    const auto projection = projection_of(*shortcut, in, before.back());
    return projection ? blocks_of(*projection, before) : std::vector<ParameterBlock>{};
  }
  return {};
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

std::string to_text(const Layer& layer) {
  return std::visit([](const auto& one) { return words_of(one); }, layer);
}

std::vector<Shape> layer_shapes(const Network& network) {
  std::vector<Shape> shapes{network.input.features};
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    try {
      need(i == 0 || !std::holds_alternative<Embedding>(layer),
           "must be the first layer: tokens have no gradient");
      shapes.push_back(std::visit([&](const auto& one) { return output_of(one, shapes); }, layer));
      element_count(shapes.back());
    } catch (const Misfit& misfit) {
      throw ConfigError("layer " + std::to_string(i) + ", " + to_text(layer) + ", " + misfit.why +
                        "; what enters it is " + to_text(shapes[i]));
    }
  }
  return shapes;
}

std::optional<Conv2d> projection_of(const Shortcut& layer, const Shape& entering,
                                    const Shape& earlier) {
  if (layer.stride == 1 && entering == earlier) return std::nullopt;
  return Conv2d{.channels = entering.back(), .kernel = 1, .stride = layer.stride, .padding = 0};
}

std::vector<ParameterBlock> parameter_blocks(const Network& network) {
  const std::vector<Shape> shapes = layer_shapes(network);
  std::vector<ParameterBlock> blocks;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    for (ParameterBlock& block : blocks_of(network.layers[i], std::span(shapes).first(i + 1))) {
      block.name = "layers." + std::to_string(i) + "." + block.name;
      block.offset = offset;
      if (__builtin_add_overflow(offset, element_count(block.shape), &offset)) {
        throw ConfigError("the network has too many parameters");
      }
      blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

std::size_t parameter_count(const Network& network) {
  const auto blocks = parameter_blocks(network);
  return blocks.empty() ? 0 : blocks.back().offset + element_count(blocks.back().shape);
}

std::size_t output_count(const Network& network) {
  return element_count(layer_shapes(network).back());
}

void check_network(const Network& network) {
  const std::size_t classes = network.input.classes;
  const std::size_t outputs = output_count(network);
  if (parameter_count(network) == 0) throw ConfigError("the network has no parameters to train");
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
  }
}

}  // namespace privgrad
