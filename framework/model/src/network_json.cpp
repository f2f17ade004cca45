#include "privgrad/model/network_json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "privgrad/chain.hpp"
#include "privgrad/error.hpp"

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMostOfNetwork = std::uint64_t{1} << 32;
constexpr std::size_t kMostLayers = 10'000;

struct MemberWriter {
  Json& json;

  void operator()(const char* name, std::size_t number) const { json[name] = number; }
  void operator()(const char* name, double number) const { json[name] = number; }
  void operator()(const char* name, bool holds) const {
    if (holds) json[name] = true;
  }
  void operator()(const char* name, ActivationKind kind) const { json[name] = to_text(kind); }
  void operator()(const char* name, PoolKind kind) const { json[name] = to_text(kind); }
  void operator()(const char* name, const Shape& shape) const { json[name] = shape; }
};

template <class Kind>
Json layer_json(const Kind& layer) {
  Json json{{"layer", Kind::kKind}};
  Kind::members(layer, MemberWriter{json});
  return json;
}

/// Reads an object member by member. Types must match exactly, and every member must be read.
class Members {
 public:
  Members(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) throw ConfigError(where_ + " is not an object");
  }

  const Json& at(const char* key) {
    const auto found = json_.find(key);
    if (found == json_.end()) throw ConfigError(where_ + " has no '" + key + "'");
    ++read_;
    return *found;
  }
  bool has(const char* key) const { return json_.contains(key); }
  /// Reads a boolean; false if it is missing.
  bool flag(const char* key) {
    if (!has(key)) return false;
    const Json& value = at(key);
    if (!value.is_boolean()) throw ConfigError(where_ + "." + key + " is neither true nor false");
    return value.get<bool>();
  }
  std::size_t number(const char* key) { return number_of(at(key), where_ + "." + key); }
  double real(const char* key) {
    const Json& value = at(key);
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      throw ConfigError(where_ + "." + key + " is not a finite number");
    return value.get<double>();
  }
  std::string text(const char* key) {
    const Json& value = at(key);
    if (!value.is_string()) throw ConfigError(where_ + "." + key + " is not text");
    return value.get<std::string>();
  }
  std::vector<double> reals(const char* key) {
    const Json& value = at(key);
    std::vector<double> numbers;
    for (const Json& one : value.is_array() ? value : Json::array({Json(nullptr)})) {
      if (!one.is_number() || !std::isfinite(one.get<double>()))
        throw ConfigError(where_ + "." + key + " is not a list of finite numbers");
      numbers.push_back(one.get<double>());
    }
    return numbers;
  }
  Shape shape(const char* key) { return list(key, 16); }
  std::vector<std::size_t> list(const char* key, std::size_t most) {
    const Json& value = at(key);
    if (!value.is_array() || value.size() > most) {
      throw ConfigError(where_ + "." + key + " is not a list of at most " + std::to_string(most) +
                        " numbers");
    }
    std::vector<std::size_t> numbers;
    for (const Json& one : value) numbers.push_back(number_of(one, where_ + "." + key));
    return numbers;
  }
  /// \throws ConfigError if there are members that were not read.
  void done() const {
    if (read_ != json_.size()) throw ConfigError(where_ + " has unknown members");
  }

 private:
  static std::size_t number_of(const Json& value, const std::string& where) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMostOfNetwork)
      throw ConfigError(where + " is not a whole number in [0, 4294967296]");
    return value.get<std::size_t>();
  }

  const Json& json_;
  std::string where_;
  std::size_t read_ = 0;
};

struct MemberReader {
  Members& members;

  void operator()(const char* name, std::size_t& number) const { number = members.number(name); }
  void operator()(const char* name, double& number) const { number = members.real(name); }
  void operator()(const char* name, bool& holds) const { holds = members.flag(name); }
  void operator()(const char* name, ActivationKind& kind) const {
    kind = activation_from_text(members.text(name));
  }
  void operator()(const char* name, PoolKind& kind) const {
    kind = pool_from_text(members.text(name));
  }
  void operator()(const char* name, Shape& shape) const { shape = members.shape(name); }
};

/// Reads a layer of this kind; nothing for an unknown kind.
template <std::size_t... Kinds>
std::optional<Layer> layer_of_kind(std::string_view kind, Members& members,
                                   std::index_sequence<Kinds...>) {
  std::optional<Layer> found;
  const auto read = [&]<class Kind>(Kind layer) {
    if (Kind::kKind != kind) return;
    Kind::members(layer, MemberReader{members});
    found = std::move(layer);
  };
  (read(std::variant_alternative_t<Kinds, Layer>{}), ...);
  return found;
}

Layer layer_from(Members& members, const std::string& where) {
  const std::string kind = members.text("layer");
  auto layer = layer_of_kind(kind, members, std::make_index_sequence<std::variant_size_v<Layer>>{});
  if (!layer) throw ConfigError(where + " is of a kind that is unknown to this version");
  return *std::move(layer);
}

Node node_from(const Json& json, const std::string& where) {
  Members members(json, where);
  Node node(layer_from(members, where));
  if (members.has("from")) {
    node.from = members.list("from", kMostLayers);
    if (node.from.empty()) throw ConfigError(where + ".from is empty");
  }
  if (members.has("name")) node.name = members.text("name");
  if (members.has("shares")) node.shares = members.number("shares");
  members.done();
  return node;
}

/// Reads a layer of format 1, in which residual blocks end with layers of the kind "shortcut".
ChainLink link_from(const Json& json, const std::string& where) {
  Members members(json, where);
  if (members.text("layer") == "shortcut") {
    const Shortcut shortcut{.over = members.number("over"), .stride = members.number("stride")};
    members.done();
    return shortcut;
  }
  Members again(json, where);
  ChainLink link(layer_from(again, where));
  again.done();
  return link;
}

bool is_shortcut(const Json& layer) {
  return layer.is_object() && layer.contains("layer") && layer["layer"] == "shortcut";
}

Json node_json(const Node& node) {
  Json json = std::visit([](const auto& one) { return layer_json(one); }, node.layer);
  if (!node.from.empty()) json["from"] = node.from;
  if (!node.name.empty()) json["name"] = node.name;
  if (node.is_frozen) json["frozen"] = true;
  if (node.shares) json["shares"] = *node.shares;
  return json;
}

constexpr std::size_t kMostValues = std::size_t{1} << 26, kMostOfAll = std::size_t{1} << 28;

/// Checks that a network with untrusted sizes fits in memory.
void check_network_sizes(const Network& network) {
  std::size_t all = 0;
  for (const Shape& shape : value_shapes(network)) {
    if (element_count(shape) > kMostValues)
      throw ConfigError("network: a layer has more than 67108864 values");
    all += element_count(shape);
  }
  if (all > kMostOfAll)
    throw ConfigError("network: its layers together have more than 268435456 values");
  if (parameter_count(network) > kMostOfNetwork)
    throw ConfigError("network: has more than 4294967296 parameters");
}

}  // namespace

Json to_json(const Network& network) {
  Json layers = Json::array();
  for (const Node& node : network.nodes) layers.push_back(node_json(node));
  Json json{{"input", network.input.features},
            {"classes", network.input.classes},
            {"loss", to_text(network.loss)},
            {"layers", std::move(layers)}};
  if (!network.class_weights.empty()) json["class_weights"] = network.class_weights;
  return json;
}

std::string_view model_format_of(const Network& network) {
  const auto is_of_format_1 = [](const Node& node) {
    if (!node.from.empty() || !node.name.empty() || node.shares) return false;
    if (const auto* dense = std::get_if<Dense>(&node.layer)) return !dense->no_bias;
    if (const auto* conv = std::get_if<Conv2d>(&node.layer)) return !conv->no_bias;
    return node.layer.index() <= Layer(Embedding{}).index();
  };
  const bool is_chain = std::ranges::all_of(network.nodes, is_of_format_1);
  return is_chain && network.class_weights.empty() && network.loss != Loss::next_token ? "1" : "2";
}

Network network_from_json(const Json& json) {
  Members members(json, "network");
  Network network;
  network.input.features = members.shape("input");
  network.input.classes = members.number("classes");
  network.loss = loss_from_text(members.text("loss"));
  if (members.has("class_weights")) network.class_weights = members.reals("class_weights");
  const Json& layers = members.at("layers");
  if (!layers.is_array() || layers.size() > kMostLayers)
    throw ConfigError("network.layers is not a list of at most 10000 layers");
  const auto where = [](std::size_t i) { return "network.layers." + std::to_string(i); };
  if (std::ranges::any_of(layers, is_shortcut)) {
    std::vector<ChainLink> chain;
    for (std::size_t i = 0; i < layers.size(); ++i) chain.push_back(link_from(layers[i], where(i)));
    network.nodes = nodes_of(network.input, chain);
  } else {
    for (std::size_t i = 0; i < layers.size(); ++i)
      network.nodes.push_back(node_from(layers[i], where(i)));
  }
  members.done();
  check_network(network);
  check_network_sizes(network);
  return network;
}

}  // namespace privgrad::core
