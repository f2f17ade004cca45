#include "privgrad/network.hpp"

#include <array>
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
constexpr Names<ActivationKind, 3> kActivations{{{ActivationKind::relu, "relu"},
                                                 {ActivationKind::tanh, "tanh"},
                                                 {ActivationKind::sigmoid, "sigmoid"}}};

template <class Enum, std::size_t N>
std::string_view name_of(const Names<Enum, N>& names, Enum value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  throw ConfigError("value outside its enumeration");
}

template <class Enum, std::size_t N>
Enum value_of(const Names<Enum, N>& names, std::string_view what, std::string_view text) {
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

}  // namespace

std::string_view to_text(Loss loss) { return name_of(kLosses, loss); }
Loss loss_from_text(std::string_view text) { return value_of(kLosses, "loss", text); }
std::string_view to_text(ActivationKind activation) { return name_of(kActivations, activation); }
ActivationKind activation_from_text(std::string_view text) {
  return value_of(kActivations, "activation", text);
}

std::vector<ParameterBlock> parameter_blocks(const Network& network) {
  std::vector<ParameterBlock> blocks;
  std::size_t offset = 0;
  std::size_t inputs = element_count(network.input.features);
  const auto add = [&](std::string name, Shape shape, std::size_t fan_in) {
    const std::size_t count = element_count(shape);
    blocks.push_back({std::move(name), std::move(shape), offset, fan_in});
    offset += count;
  };
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    if (const auto* dense = std::get_if<Dense>(&network.layers[i])) {
      add(prefix + "weight", {dense->units, inputs}, inputs);
      add(prefix + "bias", {dense->units}, 0);
      inputs = dense->units;
    } else if (const auto* opaque = std::get_if<Opaque>(&network.layers[i])) {
      for (const Opaque::Tensor& tensor : opaque->tensors) {
        add(prefix + tensor.name, tensor.shape, tensor.fan_in);
      }
      inputs = opaque->outputs;
    }
  }
  return blocks;
}

std::size_t parameter_count(const Network& network) {
  const auto blocks = parameter_blocks(network);
  return blocks.empty() ? 0 : blocks.back().offset + element_count(blocks.back().shape);
}

std::size_t output_count(const Network& network) {
  std::size_t outputs = element_count(network.input.features);
  for (const Layer& layer : network.layers) {
    if (const auto* dense = std::get_if<Dense>(&layer)) outputs = dense->units;
    if (const auto* opaque = std::get_if<Opaque>(&layer)) outputs = opaque->outputs;
  }
  return outputs;
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
