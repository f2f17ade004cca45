#include "privgrad/model/network_json.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMostOfNetwork = std::uint64_t{1} << 32;
constexpr std::size_t kMostLayers = 10'000;

Json layer_json(const Dense& layer) { return {{"layer", "dense"}, {"units", layer.units}}; }
Json layer_json(const Activation& layer) {
  return {{"layer", "activation"}, {"kind", to_text(layer.kind)}};
}
Json layer_json(const Conv2d& layer) {
  return {{"layer", "conv2d"},
          {"channels", layer.channels},
          {"kernel", layer.kernel},
          {"stride", layer.stride},
          {"padding", layer.padding}};
}
Json layer_json(const Pool& layer) {
  return {{"layer", "pool"},
          {"kind", to_text(layer.kind)},
          {"window", layer.window},
          {"stride", layer.stride}};
}
Json layer_json(const Flatten&) { return {{"layer", "flatten"}}; }
Json layer_json(const GroupNorm& layer) {
  return {{"layer", "group_norm"}, {"groups", layer.groups}, {"epsilon", layer.epsilon}};
}
Json layer_json(const LayerNorm& layer) {
  return {{"layer", "layer_norm"}, {"epsilon", layer.epsilon}};
}
Json layer_json(const Embedding& layer) {
  return {{"layer", "embedding"}, {"vocabulary", layer.vocabulary}, {"width", layer.width}};
}
Json layer_json(const Opaque& layer) {
  Json tensors = Json::array();
  for (const Opaque::Tensor& tensor : layer.tensors)
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"fan_in", tensor.fan_in}});
  return {{"layer", "opaque"}, {"tensors", std::move(tensors)}, {"outputs", layer.outputs}};
}

Json layer_json(const Shortcut& layer) {
  return {{"layer", "shortcut"}, {"over", layer.over}, {"stride", layer.stride}};
}

/// An object, member by member: nothing is taken for something else, and nothing is left over.
class Members {
 public:
  Members(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) throw ConfigError(where_ + " is no object");
  }

  const Json& at(const char* key) {
    const auto found = json_.find(key);
    if (found == json_.end()) throw ConfigError(where_ + " has no '" + key + "'");
    ++read_;
    return *found;
  }
  std::size_t number(const char* key) { return number_of(at(key), where_ + "." + key); }
  double real(const char* key) {
    const Json& value = at(key);
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      throw ConfigError(where_ + "." + key + " is no finite number");
    return value.get<double>();
  }
  std::string text(const char* key) {
    const Json& value = at(key);
    if (!value.is_string()) throw ConfigError(where_ + "." + key + " is no text");
    return value.get<std::string>();
  }
  Shape shape(const char* key) {
    const Json& value = at(key);
    if (!value.is_array() || value.size() > 16)
      throw ConfigError(where_ + "." + key + " is no list of at most 16 extents");
    Shape shape;
    for (const Json& extent : value) shape.push_back(number_of(extent, where_ + "." + key));
    return shape;
  }
  /// \throws ConfigError if there are members that nobody asked for.
  void done() const {
    if (read_ != json_.size()) throw ConfigError(where_ + " has members that it does not know");
  }

 private:
  static std::size_t number_of(const Json& value, const std::string& where) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMostOfNetwork)
      throw ConfigError(where + " is no whole number in [0, 4294967296]");
    return value.get<std::size_t>();
  }

  const Json& json_;
  std::string where_;
  std::size_t read_ = 0;
};

/// A parameter's name becomes a tensor's, in a file and in messages.
void check_tensor_name(const std::string& name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  if (name.empty() || name.size() > 128 || name.find_first_not_of(kAllowed) != name.npos)
    throw ConfigError("an opaque layer has a tensor without a proper name");
}

Opaque opaque_from(Members& members, const std::string& where) {
  Opaque layer;
  const Json& tensors = members.at("tensors");
  if (!tensors.is_array() || tensors.size() > kMostLayers)
    throw ConfigError(where + ".tensors is no list");
  for (const Json& one : tensors) {
    Members tensor(one, where + ".tensors");
    layer.tensors.push_back({.name = tensor.text("name"),
                             .shape = tensor.shape("shape"),
                             .fan_in = tensor.number("fan_in")});
    tensor.done();
    check_tensor_name(layer.tensors.back().name);
  }
  layer.outputs = members.number("outputs");
  return layer;
}

Layer layer_from(const Json& json, const std::string& where) {
  Members members(json, where);
  const std::string kind = members.text("layer");
  auto layer = [&]() -> Layer {
    if (kind == "dense") return Dense{.units = members.number("units")};
    if (kind == "activation") return Activation{activation_from_text(members.text("kind"))};
    if (kind == "conv2d") {
      return Conv2d{.channels = members.number("channels"),
                    .kernel = members.number("kernel"),
                    .stride = members.number("stride"),
                    .padding = members.number("padding")};
    }
    if (kind == "pool") {
      return Pool{.kind = pool_from_text(members.text("kind")),
                  .window = members.number("window"),
                  .stride = members.number("stride")};
    }
    if (kind == "flatten") return Flatten{};
    if (kind == "group_norm")
      return GroupNorm{.groups = members.number("groups"), .epsilon = members.real("epsilon")};
    if (kind == "layer_norm") return LayerNorm{.epsilon = members.real("epsilon")};
    if (kind == "embedding") {
      return Embedding{.vocabulary = members.number("vocabulary"),
                       .width = members.number("width")};
    }
    if (kind == "shortcut")
      return Shortcut{.over = members.number("over"), .stride = members.number("stride")};
    if (kind == "opaque") return opaque_from(members, where);
    throw ConfigError(where + " is of a kind that this version does not know");
  }();
  members.done();
  return layer;
}

constexpr std::size_t kMostValues = std::size_t{1} << 26;

/// Checks that a network whose sizes anybody may have made up fits into memory.
void check_network_sizes(const Network& network) {
  for (const Shape& shape : layer_shapes(network)) {
    if (element_count(shape) > kMostValues)
      throw ConfigError("network: a layer has more than 67108864 values");
  }
  if (parameter_count(network) > kMostOfNetwork)
    throw ConfigError("network: has more than 4294967296 parameters");
}

}  // namespace

Json to_json(const Network& network) {
  Json layers = Json::array();
  for (const Layer& layer : network.layers)
    layers.push_back(std::visit([](const auto& one) { return layer_json(one); }, layer));
  return {{"input", network.input.features},
          {"classes", network.input.classes},
          {"loss", to_text(network.loss)},
          {"layers", std::move(layers)}};
}

Network network_from_json(const Json& json) {
  Members members(json, "network");
  Network network;
  network.input.features = members.shape("input");
  network.input.classes = members.number("classes");
  network.loss = loss_from_text(members.text("loss"));
  const Json& layers = members.at("layers");
  if (!layers.is_array() || layers.size() > kMostLayers)
    throw ConfigError("network.layers is no list of at most 10000 layers");
  for (std::size_t i = 0; i < layers.size(); ++i)
    network.layers.push_back(layer_from(layers[i], "network.layers." + std::to_string(i)));
  members.done();
  check_network(network);
  check_network_sizes(network);
  return network;
}

}  // namespace privgrad::core
