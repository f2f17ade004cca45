#include "onnx_layers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "privgrad/error.hpp"

namespace privgrad::tool {
namespace {

using Extents = std::vector<std::int64_t>;

Extents twice(std::size_t extent) { return Extents(2, static_cast<std::int64_t>(extent)); }

/// Translates the nodes one by one. In the network, channels are the last extent of an example, but
/// ONNX's convolutions expect them first: a value is transposed if a layer needs the other order,
/// and stays as it is for layers that accept both.
class LayerGraph {
 public:
  LayerGraph(OnnxGraph& graph, const Network& network, const std::vector<float>& parameters,
             std::string value, std::vector<std::string>& refused)
      : graph_(graph),
        network_(network),
        blocks_(parameter_blocks(network)),
        shapes_(value_shapes(network)),
        parameters_(parameters),
        values_{{std::move(value), false}},
        refused_(refused) {}

  void add_next() {
    node_ = values_.size() - 1;
    look_at(inputs_of(network_, node_).front());
    std::visit([&](const auto& one) { add_layer(one); }, network_.nodes[node_].layer);
    values_.emplace_back(value_, is_first_);
  }

  /// Returns the name of the outputs, [n, outputs].
  std::string outputs() {
    look_at(values_.size() - 1);
    flatten();
    return value_;
  }

 private:
  void add_layer(const Dense& layer) {
    if (layer.per_place && before().size() > 1) return add_at_each_place(layer);
    flatten();
    value_ = graph_.add("Gemm", with_bias({value_, parameter("weight")}, layer.no_bias),
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
      case ActivationKind::silu:
        value_ = graph_.add("Mul", {value_, graph_.add("Sigmoid", {value_})});
        return;
      case ActivationKind::gelu_tanh: {
        const std::string square = graph_.add("Mul", {value_, value_});
        const std::string slope = graph_.add(
            "Add", {graph_.add("Mul", {square, graph_.scalar(0.044715f)}), graph_.scalar(1.0f)});
        const std::string u =
            graph_.add("Mul", {graph_.add("Mul", {value_, slope}), graph_.scalar(1.59576912f)});
        value_ = graph_.add("Mul", {value_, graph_.add("Sigmoid", {u})});
        return;
      }
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
    value_ = graph_.add("Conv", with_bias({value_, kernels(layer)}, layer.no_bias),
                        {{"kernel_shape", twice(layer.kernel)},
                         {"strides", twice(layer.stride)},
                         {"pads", Extents(4, static_cast<std::int64_t>(layer.padding))}});
  }
  void add_layer(const Pool& layer) {
    to_image();
    value_ = graph_.add(layer.kind == PoolKind::max ? "MaxPool" : "AveragePool", {value_},
                        {{"kernel_shape", twice(layer.window)}, {"strides", twice(layer.stride)}});
  }
  void add_layer(const Flatten&) { flatten(); }
  /// Replaces group normalization, which this opset lacks, by an instance normalization whose
  /// channels are the groups, each with all its channels and places.
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
  /// With a token outside the table, some runtimes fail, and others count rows from the end.
  /// Such a token is replaced by token 0, and its example is refused. Empty places become zeros.
  void add_layer(const Embedding& layer) {
    const std::string last = graph_.scalar(static_cast<float>(layer.vocabulary - 1));
    const std::string zero = graph_.scalar(0.0f);
    const std::string whole = graph_.add("Floor", {graph_.add("Clip", {value_, zero, last})});
    const std::string is_token = graph_.add("Equal", {value_, whole});
    const std::string is_empty = graph_.add("Equal", {value_, graph_.scalar(kEmptyPlace)});
    const std::string token = graph_.add("Where", {is_token, value_, zero});
    const std::string is_allowed = as_numbers(graph_.add("Or", {is_token, is_empty}));
    const std::string all = graph_.add("ReduceMin", {is_allowed}, {{"axes", Extents{1}}});
    refused_.push_back(graph_.add("Less", {all, graph_.scalar(0.5f)}));
    const std::string there =
        graph_.reshape(as_numbers(graph_.add("Not", {is_empty})), {before().front(), 1});
    const std::string rows =
        graph_.add("Gather", {parameter("weight"), graph_.cast(token, onnx::TensorProto::INT64)});
    value_ = graph_.add("Mul", {rows, there});
  }
  void add_layer(const TokenMask&) {
    const std::string is_empty = graph_.add("Equal", {value_, graph_.scalar(kEmptyPlace)});
    value_ = as_numbers(graph_.add("Not", {is_empty}));
  }
  void add_layer(const Positions&) {
    channels_last();
    value_ = graph_.add("Add", {value_, parameter("weight")});
  }
  void add_layer(const Prepend&) {
    channels_last();
    const std::string rows = graph_.add(
        "Slice", {graph_.add("Shape", {value_}), whole_numbers({0}), whole_numbers({1})});
    const std::string shape = graph_.add("Concat", {rows, whole_numbers({1, before().back()})},
                                         {{"axis", std::int64_t{0}}});
    const std::string row =
        graph_.add("Expand", {parameter("weight", {1, 1, before().back()}), shape});
    value_ = graph_.add("Concat", {row, value_}, {{"axis", std::int64_t{1}}});
  }
  void add_layer(const MeanOfPlaces&) {
    const Shape shape = before();
    const std::string x = input(0);
    if (inputs_of(network_, node_).size() == 1) {
      value_ = graph_.add("ReduceMean", {x}, {{"axes", Extents{1}}, {"keepdims", std::int64_t{0}}});
      return;
    }
    const std::string mask = graph_.reshape(input(1), {1, shape[0]});
    const std::vector<float> ones(shape[0], 1.0f);
    const std::string members =
        graph_.add("MatMul", {mask, graph_.constant(std::span(ones), {shape[0], 1})});
    const std::string sum = graph_.add("MatMul", {mask, x});
    value_ = graph_.reshape(
        graph_.add("Div", {sum, graph_.add("Max", {members, graph_.scalar(1.0f)})}), {shape[1]});
  }
  void add_layer(const PickPlace& layer) {
    const Shape shape = before();
    const std::string x = input(0);
    if (inputs_of(network_, node_).size() == 1) {
      value_ = graph_.reshape(
          graph_.add("Gather", {x, whole_numbers({layer.last ? shape[0] - 1 : layer.place})},
                     {{"axis", std::int64_t{1}}}),
          {shape[1]});
      return;
    }
    // Numbers the places from 1, and keeps only the row of the mask's last place, which has the
    // largest number.
    const std::string mask = input(1);
    std::vector<float> numbers(shape[0]);
    std::iota(numbers.begin(), numbers.end(), 1.0f);
    const std::string at =
        graph_.add("Mul", {mask, graph_.constant(std::span(numbers), {shape[0]})});
    const std::string last = graph_.add("ReduceMax", {at}, {{"axes", Extents{1}}});
    const std::string chosen =
        graph_.add("Mul", {as_numbers(graph_.add("Equal", {at, last})), mask});
    value_ = graph_.reshape(graph_.add("MatMul", {graph_.reshape(chosen, {1, shape[0]}), x}),
                            {shape[1]});
  }
  void add_layer(const Attention& layer) {
    const std::size_t length = before()[0], width = before()[1] / layer.heads;
    const std::string q = turned(heads_of(input(0), layer.heads, length, width), layer, length);
    const std::string k =
        turned(repeated(heads_of(input(1), layer.key_heads, length, width), layer), layer, length);
    const std::string v = repeated(heads_of(input(2), layer.key_heads, length, width), layer);
    const std::string products =
        graph_.add("MatMul", {q, graph_.add("Transpose", {k}, {{"perm", Extents{0, 1, 3, 2}}})});
    std::string probabilities =
        graph_.add("Mul", {products, graph_.scalar(1.0f / std::sqrt(static_cast<float>(width)))});
    const std::string open = open_places(layer, length);
    if (!open.empty()) {
      probabilities =
          graph_.add("Where", {graph_.cast(open, onnx::TensorProto::BOOL), probabilities,
                               graph_.scalar(std::numeric_limits<float>::lowest())});
    }
    probabilities = graph_.add("Softmax", {probabilities}, {{"axis", std::int64_t{-1}}});
    if (!open.empty()) probabilities = graph_.add("Mul", {probabilities, open});
    const std::string seen = graph_.add("MatMul", {probabilities, v});
    value_ = graph_.reshape(graph_.add("Transpose", {seen}, {{"perm", Extents{0, 2, 1, 3}}}),
                            {length, layer.heads * width});
    is_first_ = false;
  }
  void add_layer(const Add&) {
    const std::vector<std::size_t> inputs = inputs_of(network_, node_);
    channels_first();
    std::string sum = value_;
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      look_at(inputs[i]);
      channels_first();
      sum = graph_.add("Add", {sum, value_});
    }
    value_ = sum;
  }
  void add_layer(const ElementwiseProduct&) {
    channels_first();
    const std::string first = value_;
    look_at(inputs_of(network_, node_)[1]);
    channels_first();
    value_ = graph_.add("Mul", {first, value_});
  }
  /// Computes the mean square by ReduceMean, because this opset has no RMS norm.
  void add_layer(const RmsNorm& layer) {
    channels_last();
    const std::string mean =
        graph_.add("ReduceMean", {graph_.add("Mul", {value_, value_})}, {{"axes", Extents{-1}}});
    const std::string size = graph_.add(
        "Sqrt", {graph_.add("Add", {mean, graph_.scalar(static_cast<float>(layer.epsilon))})});
    value_ = graph_.add("Mul", {graph_.add("Div", {value_, size}), parameter("weight")});
  }
  void add_layer(const Scale& layer) {
    value_ = graph_.add("Mul", {value_, graph_.scalar(static_cast<float>(layer.factor))});
  }
  void add_layer(const PartOf& layer) {
    channels_last();
    const auto one = [&](std::size_t number) {
      const auto value = static_cast<std::int64_t>(number);
      return graph_.constant(std::span(&value, 1), {1});
    };
    value_ = graph_.add(
        "Slice", {value_, one(layer.first), one(layer.first + layer.size), one(before().size())});
  }
  void add_layer(const Reshape& layer) {
    channels_last();
    value_ = graph_.reshape(value_, layer.shape);
  }
  /// Returns an input of the current node, with channels last, and makes it the current value.
  std::string input(std::size_t i) {
    look_at(inputs_of(network_, node_)[i]);
    channels_last();
    return value_;
  }
  std::string as_numbers(const std::string& truths) {
    return graph_.cast(truths, onnx::TensorProto::FLOAT);
  }
  std::string whole_numbers(const Shape& numbers) {
    const Extents extents(numbers.begin(), numbers.end());
    return graph_.constant(std::span(extents), {numbers.size()});
  }
  /// Reshapes [n, length, heads width] to [n, heads, length, width].
  std::string heads_of(const std::string& x, std::size_t heads, std::size_t length,
                       std::size_t width) {
    return graph_.add("Transpose", {graph_.reshape(x, {length, heads, width})},
                      {{"perm", Extents{0, 2, 1, 3}}});
  }
  /// Repeats each head of keys or values for every query head that reads it.
  std::string repeated(const std::string& x, const Attention& layer) {
    if (layer.key_heads == layer.heads) return x;
    Shape read;
    for (std::size_t head = 0; head < layer.heads; ++head)
      read.push_back(head / (layer.heads / layer.key_heads));
    return graph_.add("Gather", {x, whole_numbers(read)}, {{"axis", std::int64_t{1}}});
  }
  /// Rotary embedding: turns each head's pairs of coordinates by the angles of the place.
  std::string turned(const std::string& x, const Attention& layer, std::size_t length) {
    if (layer.rotary == 0.0) return x;
    const std::size_t pairs = shapes_[inputs_of(network_, node_)[0]][1] / layer.heads / 2;
    std::vector<float> cosines, sines;
    for (std::size_t t = 0; t < length; ++t) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const double power = static_cast<double>(i) / static_cast<double>(pairs);
        const double angle = static_cast<double>(t) * std::pow(layer.rotary, -power);
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    const std::string cosine = graph_.constant(std::span(cosines), {length, pairs});
    const std::string sine = graph_.constant(std::span(sines), {length, pairs});
    const auto half = [&](std::size_t first) {
      return graph_.add(
          "Slice", {x, whole_numbers({first}), whole_numbers({first + pairs}), whole_numbers({3})});
    };
    const std::string first = half(0), second = half(pairs);
    const auto product = [&](const std::string& a, const std::string& b) {
      return graph_.add("Mul", {a, b});
    };
    return graph_.add("Concat",
                      {graph_.add("Sub", {product(first, cosine), product(second, sine)}),
                       graph_.add("Add", {product(second, cosine), product(first, sine)})},
                      {{"axis", std::int64_t{3}}});
  }
  /// Returns 1 where a query attends to a key, otherwise 0: [n or 1, 1, length or 1, length]; "" if
  /// all queries attend to all keys.
  std::string open_places(const Attention& layer, std::size_t length) {
    std::string earlier, mask;
    if (layer.causal) {
      std::vector<float> rows(length * length, 0.0f);
      for (std::size_t t = 0; t < length; ++t)
        std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(t * length), t + 1, 1.0f);
      earlier = graph_.constant(std::span(rows), {1, 1, length, length});
    }
    if (inputs_of(network_, node_).size() > 3) mask = graph_.reshape(input(3), {1, 1, length});
    if (earlier.empty()) return mask;
    return mask.empty() ? earlier : graph_.add("Mul", {earlier, mask});
  }
  /// Adds a dense layer on the last extent.
  void add_at_each_place(const Dense& layer) {
    channels_last();
    const ParameterBlock& one = block("weight");
    const std::span<const float> given = values_of(one);
    const std::size_t units = one.shape[0], width = one.shape[1];
    std::vector<float> turned(given.size());
    for (std::size_t u = 0; u < units; ++u) {
      for (std::size_t k = 0; k < width; ++k) turned[k * units + u] = given[u * width + k];
    }
    value_ = graph_.add("MatMul", {value_, graph_.constant(turned, {width, units}, one.name)});
    if (!layer.no_bias) value_ = graph_.add("Add", {value_, parameter("bias")});
  }
  std::vector<std::string> with_bias(std::vector<std::string> inputs, bool is_absent) {
    if (!is_absent) inputs.push_back(parameter("bias"));
    return inputs;
  }

  /// Makes the value with this index the current value.
  void look_at(std::size_t value) {
    at_ = value;
    std::tie(value_, is_first_) = values_[value];
  }

  /// Returns the shape of the current value.
  const Shape& before() const { return shapes_[at_]; }

  /// Returns `shape` with the channels first.
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

  /// Makes the current value an image [n, channels, height, width]; an example with two extents has
  /// one channel.
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
    const std::string full = name_of(network_, owner_of(network_, node_)) + "." + name;
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
  const Network& network_;
  std::vector<ParameterBlock> blocks_;
  std::vector<Shape> shapes_;
  const std::vector<float>& parameters_;
  /// The name of each value, and whether its channels come first.
  std::vector<std::pair<std::string, bool>> values_;
  std::vector<std::string>& refused_;
  std::size_t node_ = 0;   ///< The current node.
  std::size_t at_ = 0;     ///< The index of the current value.
  std::string value_;      ///< The current value's name.
  bool is_first_ = false;  ///< Whether the current value's channels come first.
};

}  // namespace

std::string add_layers(OnnxGraph& graph, const Network& network,
                       const std::vector<float>& parameters, const std::string& features,
                       std::vector<std::string>& refused) {
  LayerGraph layers(graph, network, parameters, features, refused);
  for (std::size_t i = 0; i < network.nodes.size(); ++i) layers.add_next();
  return layers.outputs();
}

}  // namespace privgrad::tool
