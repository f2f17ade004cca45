#include "network_definition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xsort.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xview.hpp>

namespace privgrad::testing {
namespace {

using Tensor = xt::xarray<double>;

/// The parameters of all layers, from which each layer in turn takes its own.
class Parameters {
 public:
  explicit Parameters(std::span<const float> values) : values_(values) {}

  Tensor next(const Shape& shape) {
    Tensor block(shape);
    std::copy_n(values_.begin(), block.size(), block.begin());
    values_ = values_.subspan(block.size());
    return block;
  }

 private:
  std::span<const float> values_;
};

Tensor reshaped(Tensor x, const Shape& shape) {
  x.reshape(shape);
  return x;
}

Tensor defined(const Dense& layer, const Tensor& x, const Shape&, Parameters& parameters) {
  const std::size_t inputs = layer.per_place ? x.shape().back() : x.size();
  const Tensor w = parameters.next({layer.units, inputs});
  const Tensor b =
      layer.no_bias ? xt::zeros<double>(Shape{layer.units}) : parameters.next({layer.units});
  return xt::sum(w * reshaped(x, {x.size() / inputs, 1, inputs}), {2}) + b;
}

Tensor defined(const Activation& layer, const Tensor& x, const Shape&, Parameters&) {
  switch (layer.kind) {
    case ActivationKind::relu:
      return xt::maximum(x, 0.0);
    case ActivationKind::tanh:
      return xt::tanh(x);
    case ActivationKind::sigmoid:
      return 1.0 / (1.0 + xt::exp(-x));
    case ActivationKind::gelu:
      return x * xt::erfc(-x / std::sqrt(2.0)) / 2.0;
    case ActivationKind::silu:
      return x / (1.0 + xt::exp(-x));
    case ActivationKind::gelu_tanh:
      return x * (1.0 + xt::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x))) / 2.0;
  }
  return {};
}

/// \returns the image as [height, width, channels], with zeros on every side.
Tensor padded(const Tensor& x, std::size_t zeros) {
  const std::size_t height = x.shape(0), width = x.shape(1);
  Tensor image =
      xt::zeros<double>(Shape{height + 2 * zeros, width + 2 * zeros, x.size() / (height * width)});
  xt::view(image, xt::range(zeros, zeros + height), xt::range(zeros, zeros + width)) =
      reshaped(x, {height, width, image.shape(2)});
  return image;
}

/// Computes an image of this shape whose channels at every place are formula(window).
template <class Formula>
Tensor at_windows(const Tensor& x, std::size_t size, std::size_t stride, const Shape& shape,
                  const Formula& formula) {
  Tensor y(shape);
  y.reshape({shape[0], shape[1], y.size() / (shape[0] * shape[1])});
  for (std::size_t i = 0; i < shape[0]; ++i) {
    for (std::size_t j = 0; j < shape[1]; ++j) {
      const Tensor window = xt::view(x, xt::range(i * stride, i * stride + size),
                                     xt::range(j * stride, j * stride + size));
      xt::view(y, i, j) = formula(window);
    }
  }
  return y;
}

Tensor defined(const Conv2d& layer, const Tensor& input, const Shape& shape,
               Parameters& parameters) {
  const Tensor x = padded(input, layer.padding);
  const Tensor w = parameters.next({layer.channels, layer.kernel, layer.kernel, x.shape(2)});
  const Tensor b =
      layer.no_bias ? xt::zeros<double>(Shape{layer.channels}) : parameters.next({layer.channels});
  return at_windows(x, layer.kernel, layer.stride, shape, [&](const Tensor& window) -> Tensor {
    return xt::sum(w * window, {1, 2, 3}) + b;
  });
}

Tensor defined(const Pool& layer, const Tensor& x, const Shape& shape, Parameters&) {
  return at_windows(padded(x, 0), layer.window, layer.stride, shape,
                    [&](const Tensor& window) -> Tensor {
                      if (layer.kind == PoolKind::max) return xt::amax(window, {0, 1});
                      return xt::mean(window, {0, 1});
                    });
}

Tensor defined(const Flatten&, const Tensor& x, const Shape&, Parameters&) { return x; }

/// Normalises the numbers along these axes together; the channels are the last extent of `shape`.
Tensor normalised(const Tensor& x, const std::vector<std::size_t>& axes, double epsilon,
                  const Shape& shape, Parameters& parameters) {
  const Tensor weight = parameters.next({shape.back()});
  const Tensor bias = parameters.next({shape.back()});
  const Tensor mean = xt::mean(x, axes, xt::keep_dims);
  const Tensor variance = xt::mean(xt::square(x - mean), axes, xt::keep_dims);
  return reshaped((x - mean) / xt::sqrt(variance + epsilon), shape) * weight + bias;
}

Tensor defined(const GroupNorm& layer, const Tensor& x, const Shape& shape,
               Parameters& parameters) {
  const std::size_t channels = shape.back();
  return normalised(reshaped(x, {x.size() / channels, layer.groups, channels / layer.groups}),
                    {0, 2}, layer.epsilon, shape, parameters);
}

Tensor defined(const LayerNorm& layer, const Tensor& x, const Shape& shape,
               Parameters& parameters) {
  return normalised(x, {shape.size() - 1}, layer.epsilon, shape, parameters);
}

Tensor defined(const RmsNorm& layer, const Tensor& x, const Shape& shape, Parameters& parameters) {
  const Tensor mean = xt::mean(xt::square(x), {shape.size() - 1}, xt::keep_dims);
  return x / xt::sqrt(mean + layer.epsilon) * parameters.next({shape.back()});
}

Tensor defined(const Embedding& layer, const Tensor& x, const Shape&, Parameters& parameters) {
  const Tensor w = parameters.next({layer.vocabulary, layer.width});
  Tensor y = xt::zeros<double>(Shape{x.size(), layer.width});
  for (std::size_t t = 0; t < x.size(); ++t) {
    if (x(t) != -1.0) xt::view(y, t) = xt::view(w, static_cast<std::size_t>(x(t)));
  }
  return y;
}

Tensor defined(const Scale& layer, const Tensor& x, const Shape&, Parameters&) {
  return layer.factor * x;
}

Tensor defined(const PartOf& layer, const Tensor& x, const Shape&, Parameters&) {
  return xt::strided_view(x, {xt::ellipsis(), xt::range(layer.first, layer.first + layer.size)});
}

Tensor defined(const Reshape&, const Tensor& x, const Shape&, Parameters&) { return x; }

Tensor defined(const Add&, const std::vector<Tensor>& in, const Shape&, Parameters&) {
  Tensor sum = in.front();
  for (std::size_t i = 1; i < in.size(); ++i) sum += in[i];
  return sum;
}

Tensor defined(const ElementwiseProduct&, const std::vector<Tensor>& in, const Shape&,
               Parameters&) {
  return in[0] * in[1];
}

Tensor defined(const TokenMask&, const Tensor& x, const Shape&, Parameters&) {
  return xt::where(xt::equal(x, -1.0), 0.0, 1.0);
}

Tensor defined(const Positions&, const Tensor& x, const Shape& shape, Parameters& parameters) {
  return x + parameters.next(shape);
}

Tensor defined(const Prepend&, const Tensor& x, const Shape& shape, Parameters& parameters) {
  return xt::concatenate(xt::xtuple(parameters.next({1, shape[1]}), x), 0);
}

/// \returns 1 for each place in the mask, otherwise 0; without a mask, 1 for all places.
Tensor places_there(const std::vector<Tensor>& in, std::size_t mask) {
  if (in.size() > mask) return in[mask];
  return xt::ones<double>(Shape{in.front().shape(0)});
}

Tensor defined(const MeanOfPlaces&, const std::vector<Tensor>& in, const Shape&, Parameters&) {
  const Tensor there = places_there(in, 1);
  const Tensor sum = xt::sum(in[0] * reshaped(there, {there.size(), 1}), {0});
  return sum / std::max(1.0, xt::sum(there)());
}

Tensor defined(const PickPlace& layer, const std::vector<Tensor>& in, const Shape&, Parameters&) {
  if (!layer.last) return xt::view(in[0], layer.place);
  const Tensor there = places_there(in, 1);
  for (std::size_t place = there.size(); place-- > 0;) {
    if (there(place) != 0.0) return xt::view(in[0], place);
  }
  return xt::zeros<double>(Shape{in[0].shape(1)});
}

/// \returns the columns of one head, with pairs rotated by the angles of their places.
Tensor of_head(const Tensor& x, std::size_t head, std::size_t width, double rotary) {
  Tensor own = xt::view(x, xt::all(), xt::range(head * width, (head + 1) * width));
  if (rotary == 0.0) return own;
  const std::size_t half = width / 2;
  const auto pairs = static_cast<double>(half);
  const Tensor places =
      reshaped(xt::arange<double>(static_cast<double>(x.shape(0))), {x.shape(0), 1});
  const Tensor angles = places * xt::pow(rotary, -xt::arange<double>(pairs) / pairs);
  const Tensor first = xt::view(own, xt::all(), xt::range(0, width / 2));
  const Tensor second = xt::view(own, xt::all(), xt::range(width / 2, width));
  return xt::concatenate(xt::xtuple(first * xt::cos(angles) - second * xt::sin(angles),
                                    second * xt::cos(angles) + first * xt::sin(angles)),
                         1);
}

Tensor defined(const Attention& layer, const std::vector<Tensor>& in, const Shape& shape,
               Parameters&) {
  const std::size_t width = shape[1] / layer.heads;
  Tensor y = xt::zeros<double>(shape);
  for (std::size_t head = 0; head < layer.heads; ++head) {
    const std::size_t read = head / (layer.heads / layer.key_heads);
    const Tensor q = of_head(in[0], head, width, layer.rotary);
    const Tensor k = of_head(in[1], read, width, layer.rotary);
    const Tensor v = of_head(in[2], read, width, 0.0);
    for (std::size_t t = 0; t < shape[0]; ++t) {
      Tensor there = places_there(in, 3);
      if (layer.causal) xt::view(there, xt::range(t + 1, shape[0])) = 0.0;
      if (xt::sum(there)() == 0.0) continue;
      const Tensor products =
          xt::sum(xt::view(q, t) * k, {1}) / std::sqrt(static_cast<double>(width));
      const Tensor open =
          xt::where(there > 0.0, products, -std::numeric_limits<double>::infinity());
      const Tensor e = xt::exp(open - xt::amax(open)());
      xt::view(y, t, xt::range(head * width, (head + 1) * width)) =
          xt::sum(reshaped(e, {shape[0], 1}) * v, {0}) / xt::sum(e)();
    }
  }
  return y;
}

template <class One>
Tensor defined(const One& layer, const std::vector<Tensor>& in, const Shape& shape,
               Parameters& parameters) {
  return defined(layer, in.front(), shape, parameters);
}

Tensor outputs_of_one(const Network& network, Parameters trained, std::span<const float> features) {
  const std::vector<Shape> shapes = value_shapes(network);
  Parameters frozen(network.frozen);
  std::vector<std::pair<Parameters, Parameters>> at;  // where each node's parameters begin
  std::vector<Tensor> values{Parameters(features).next(shapes[0])};
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    const Node& node = network.nodes[i];
    std::vector<Tensor> in;
    for (const std::size_t value : inputs_of(network, i)) in.push_back(values[value]);
    at.emplace_back(trained, frozen);
    auto shared = at[owner_of(network, i)];
    const bool is_frozen = network.nodes[owner_of(network, i)].is_frozen;
    const auto output = [&](const auto& layer) {
      if (node.shares)
        return defined(layer, in, shapes[i + 1], is_frozen ? shared.second : shared.first);
      return defined(layer, in, shapes[i + 1], is_frozen ? frozen : trained);
    };
    values.push_back(reshaped(std::visit(output, node.layer), shapes[i + 1]));
  }
  return values.back();
}

double cross_entropy(const Tensor& y, std::size_t label) {
  const double top = xt::amax(y)();
  return std::log(xt::sum(xt::exp(y - top))()) + top - y(label);
}

double next_token_loss(const Tensor& y, std::span<const float> tokens) {
  double sum = 0.0, count = 0.0;
  for (std::size_t t = 0; t + 1 < y.shape(0); ++t) {
    if (tokens[t + 1] == kEmptyPlace) continue;
    sum += cross_entropy(xt::view(y, t), static_cast<std::size_t>(tokens[t + 1]));
    count += 1.0;
  }
  return sum / std::max(1.0, count);
}

/// Returns the loss of an example whose class has the weight 1.
double plain_loss_of(const Network& network, const Tensor& y, double target,
                     std::span<const float> features) {
  const auto label = static_cast<std::size_t>(std::max(0.0, target));
  switch (network.loss) {
    case Loss::cross_entropy:
      return cross_entropy(y, label);
    case Loss::squared: {
      Tensor wanted = xt::full_like(y, network.input.classes == 0 ? target : 0.0);
      if (network.input.classes > 0) wanted(label) = 1.0;
      return 0.5 * xt::sum(xt::square(y - wanted))();
    }
    case Loss::logistic:
      return std::log1p(std::exp(label == 1 ? -y(0) : y(0)));
    case Loss::next_token:
      return next_token_loss(reshaped(y, value_shapes(network).back()), features);
  }
  return 0.0;
}

double loss_of(const Network& network, const Tensor& y, const Batch& example) {
  const auto target = static_cast<double>(example.targets[0]);
  const double loss = plain_loss_of(network, y, target, example.features);
  if (network.class_weights.empty()) return loss;
  return network.class_weights[static_cast<std::size_t>(target)] * loss;
}

bool is_correct(const Network& network, const Tensor& y, double target) {
  if (network.input.classes == 0) return false;
  const auto label = static_cast<std::size_t>(target);
  return (y.size() == 1 ? static_cast<std::size_t>(y(0) > 0.0) : xt::argmax(y)()) == label;
}

}  // namespace

std::vector<double> defined_outputs(const Network& network, std::span<const float> parameters,
                                    const Examples& examples) {
  std::vector<double> all;
  for (std::size_t row = 0; row < examples.rows(); ++row) {
    const Tensor y = outputs_of_one(network, Parameters(parameters), examples.one(row).features);
    all.insert(all.end(), y.begin(), y.end());
  }
  return all;
}

Evaluation defined_evaluation(const Network& network, const std::vector<double>& outputs,
                              const Examples& examples) {
  const Tensor all = xt::adapt(outputs, Shape{examples.rows(), output_count(network)});
  Evaluation sum;
  for (std::size_t row = 0; row < examples.rows(); ++row) {
    const Tensor y = xt::view(all, row);
    sum.loss += loss_of(network, y, examples.one(row));
    sum.correct += is_correct(network, y, static_cast<double>(examples.targets[row])) ? 1 : 0;
  }
  return sum;
}

}  // namespace privgrad::testing
