#include "onnx_layers.hpp"

#include <cmath>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

using Extents = std::vector<std::int64_t>;

Extents twice(std::size_t extent) { return Extents(2, static_cast<std::int64_t>(extent)); }

/// The value as it passes through the layers. Here the channels are the last extent of an example,
/// but ONNX's convolutions expect them first: the value is transposed where a layer needs the other
/// order, and keeps that order for layers that accept both.
class LayerGraph {
 public:
  LayerGraph(OnnxGraph& graph, const Network& network, const std::vector<float>& parameters,
             std::string value, std::vector<std::string>& refused)
      : graph_(graph),
        blocks_(parameter_blocks(network)),
        shapes_(layer_shapes(network)),
        parameters_(parameters),
        value_(std::move(value)),
        refused_(refused) {}

  void add(const Layer& layer) {
    entering_.emplace_back(value_, is_first_);
    std::visit([&](const auto& one) { add_layer(one); }, layer);
    ++layer_;
  }

  /// [n, outputs].
  std::string outputs() {
    flatten();
    return value_;
  }

 private:
  void add_layer(const Dense& layer) {
    if (layer.per_place && before().size() > 1) return add_at_each_place();
    flatten();
    value_ = graph_.add("Gemm", {value_, parameter("weight"), parameter("bias")},
                        {{"transB", std::int64_t{1}}});
  }
  void add_layer(const Activation& layer) {
    switch (layer.kind) {
      case ActivationKind::relu:
        value_ = graph_.add("Relu", {value_});
        return;
      case ActivationKind::tanh:
        value_ = graph_.add("Tanh", {value_});
        return;
      case ActivationKind::sigmoid:
        value_ = graph_.add("Sigmoid", {value_});
        return;
      case ActivationKind::gelu: {  // The Gelu operation itself needs opset 20.
        const std::string scaled = graph_.add("Div", {value_, graph_.scalar(std::sqrt(2.0f))});
        const std::string above =
            graph_.add("Add", {graph_.add("Erf", {scaled}), graph_.scalar(1.0f)});
        value_ = graph_.add("Mul", {graph_.add("Mul", {value_, graph_.scalar(0.5f)}), above});
        return;
      }
    }
  }
  void add_layer(const Conv2d& layer) {
    to_image();
    convolve(layer);
  }
  void add_layer(const Pool& layer) {
    to_image();
    value_ = graph_.add(layer.kind == PoolKind::max ? "MaxPool" : "AveragePool", {value_},
                        {{"kernel_shape", twice(layer.window)}, {"strides", twice(layer.stride)}});
  }
  void add_layer(const Flatten&) { flatten(); }
  /// Expressed as instance normalization with one channel per group, which consists of the group's
  /// channels and places.
  void add_layer(const GroupNorm& layer) {
    channels_first();
    const Shape shape = ordered(before());
    const std::size_t size = element_count(shape);
    const std::vector<float> ones(layer.groups, 1.0f), zeros(layer.groups, 0.0f);
    value_ = graph_.reshape(value_, {layer.groups, size / layer.groups});
    value_ = graph_.add(
        "InstanceNormalization",
        {value_, graph_.constant(ones, {layer.groups}), graph_.constant(zeros, {layer.groups})},
        {{"epsilon", static_cast<float>(layer.epsilon)}});
    value_ = graph_.reshape(value_, shape);
    Shape per_channel(shape.size(), 1);
    per_channel.front() = shape.front();
    value_ = graph_.add("Mul", {value_, parameter("weight", per_channel)});
    value_ = graph_.add("Add", {value_, parameter("bias", per_channel)});
  }
  void add_layer(const LayerNorm& layer) {
    channels_last();
    value_ =
        graph_.add("LayerNormalization", {value_, parameter("weight"), parameter("bias")},
                   {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(layer.epsilon)}});
  }
  /// A token outside the table would end the call in some runtimes and count from the end in
  /// others. It is replaced by row 0, and its example is refused.
  void add_layer(const Embedding& layer) {
    const std::string last = graph_.scalar(static_cast<float>(layer.vocabulary - 1));
    const std::string zero = graph_.scalar(0.0f);
    const std::string whole = graph_.add("Floor", {graph_.add("Clip", {value_, zero, last})});
    const std::string is_token = graph_.add("Equal", {value_, whole});
    const std::string token = graph_.add("Where", {is_token, value_, zero});
    value_ =
        graph_.add("Gather", {parameter("weight"), graph_.cast(token, onnx::TensorProto::INT64)});
    const std::string all = graph_.add(
        "ReduceMin", {graph_.cast(is_token, onnx::TensorProto::FLOAT)}, {{"axes", Extents{1}}});
    refused_.push_back(graph_.add("Less", {all, graph_.scalar(0.5f)}));
  }
  void add_layer(const Shortcut& layer) {
    channels_first();
    const std::string direct = value_;
    const std::size_t here = layer_, source = layer_ - layer.over;
    const auto projection = projection_of(layer, shapes_[here], shapes_[source]);
    std::tie(value_, is_first_) = entering_[source];
    layer_ = source;
    projection ? to_image() : channels_first();
    layer_ = here;
    if (projection) convolve(*projection);
    value_ = graph_.add("Add", {direct, value_});
  }
  /// Adds a dense layer on the last extent.
  void add_at_each_place() {
    channels_last();
    const ParameterBlock& one = block("weight");
    const std::span<const float> given = values_of(one);
    const std::size_t units = one.shape[0], width = one.shape[1];
    std::vector<float> turned(given.size());
    for (std::size_t u = 0; u < units; ++u) {
      for (std::size_t k = 0; k < width; ++k) turned[k * units + u] = given[u * width + k];
    }
    value_ = graph_.add("MatMul", {value_, graph_.constant(turned, {width, units}, one.name)});
    value_ = graph_.add("Add", {value_, parameter("bias")});
  }
  /// Convolves with the parameters of the current layer.
  void convolve(const Conv2d& layer) {
    value_ = graph_.add("Conv", {value_, kernels(layer), parameter("bias")},
                        {{"kernel_shape", twice(layer.kernel)},
                         {"strides", twice(layer.stride)},
                         {"pads", Extents(4, static_cast<std::int64_t>(layer.padding))}});
  }

  /// The shape of the current layer's input.
  const Shape& before() const { return shapes_[layer_]; }

  /// `shape` with the channels first.
  static Shape ordered(const Shape& shape) {
    Shape result{shape.back()};
    result.insert(result.end(), shape.begin(), shape.end() - 1);
    return result;
  }

  void channels_first() {
    if (is_first_ || before().size() < 2) return;
    const auto rank = static_cast<std::int64_t>(before().size());
    Extents order{0, rank};
    for (std::int64_t axis = 1; axis < rank; ++axis) order.push_back(axis);
    value_ = graph_.add("Transpose", {value_}, {{"perm", order}});
    is_first_ = true;
  }

  void channels_last() {
    if (!is_first_) return;
    const auto rank = static_cast<std::int64_t>(before().size());
    Extents order{0};
    for (std::int64_t axis = 2; axis <= rank; ++axis) order.push_back(axis);
    order.push_back(1);
    value_ = graph_.add("Transpose", {value_}, {{"perm", order}});
    is_first_ = false;
  }

  /// Makes the value an image [n, channels, height, width]; an image with two extents has one
  /// channel.
  void to_image() {
    if (before().size() == 3) {
      channels_first();
    } else {
      channels_last();
      value_ = graph_.reshape(value_, {1, before()[0], before()[1]});
      is_first_ = true;
    }
  }

  void flatten() {
    channels_last();
    if (before().size() != 1) value_ = graph_.reshape(value_, {element_count(before())});
  }

  const ParameterBlock& block(const std::string& name) const {
    const std::string full = "layers." + std::to_string(layer_) + "." + name;
    for (const ParameterBlock& one : blocks_) {
      if (one.name == full) return one;
    }
    throw PluginError("the network has no parameters " + full);
  }
  std::span<const float> values_of(const ParameterBlock& one) const {
    return std::span(parameters_).subspan(one.offset, element_count(one.shape));
  }
  std::string parameter(const std::string& name) { return parameter(name, block(name).shape); }
  std::string parameter(const std::string& name, const Shape& shape) {
    const ParameterBlock& one = block(name);
    return graph_.constant(values_of(one), shape, one.name);
  }

  /// Reorders [channels, kernel, kernel, inputs] to [channels, inputs, kernel, kernel].
  std::string kernels(const Conv2d& layer) {
    const ParameterBlock& one = block("weight");
    const std::span<const float> given = values_of(one);
    const std::size_t area = layer.kernel * layer.kernel;
    const std::size_t inputs = one.shape.back();
    std::vector<float> moved(given.size());
    for (std::size_t c = 0; c < layer.channels; ++c) {
      for (std::size_t at = 0; at < area; ++at) {
        for (std::size_t k = 0; k < inputs; ++k)
          moved[(c * inputs + k) * area + at] = given[(c * area + at) * inputs + k];
      }
    }
    return graph_.constant(moved, {layer.channels, inputs, layer.kernel, layer.kernel}, one.name);
  }

  OnnxGraph& graph_;
  std::vector<ParameterBlock> blocks_;
  std::vector<Shape> shapes_;
  const std::vector<float>& parameters_;
  std::string value_;
  std::vector<std::string>& refused_;
  std::vector<std::pair<std::string, bool>> entering_;  ///< value_ and is_first_ before each layer.
  std::size_t layer_ = 0;
  bool is_first_ = false;  ///< Whether the channels come first.
};

}  // namespace

std::string add_layers(OnnxGraph& graph, const Network& network,
                       const std::vector<float>& parameters, const std::string& features,
                       std::vector<std::string>& refused) {
  LayerGraph layers(graph, network, parameters, features, refused);
  for (const Layer& layer : network.layers) layers.add(layer);
  return layers.outputs();
}

}  // namespace privgrad::tool
