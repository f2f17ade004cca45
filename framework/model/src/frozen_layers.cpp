#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "privgrad/clipping.hpp"
#include "privgrad/model/initial_weights.hpp"
#include "privgrad/model/trainable_layers.hpp"
#include "privgrad/params.hpp"

namespace privgrad::core {
namespace {

constexpr const char* kTrainKey = "model.train";
constexpr const char* kTargetsKey = "model.lora.targets";

/// Whether a text matches a pattern in which * matches any characters.
bool matches_pattern(std::string_view pattern, std::string_view text) {
  // The place of the pattern's last star so far, and the place in the text where its match ends.
  std::size_t p = 0, t = 0, star = pattern.npos, tried = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++tried;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

std::vector<TrainableLayer> trainable_layers(const Network& network) {
  std::vector<TrainableLayer> layers;
  for (const ParameterBlock& block : parameter_blocks(network)) {
    if (layers.empty() || layers.back().index != block.node)
      layers.push_back({.name = name_of(network, block.node), .index = block.node, .tensors = {}});
    layers.back().tensors.push_back(block.name);
  }
  return layers;
}

std::string listed(const std::vector<TrainableLayer>& layers) {
  std::string all;
  for (const TrainableLayer& layer : layers) all += (all.empty() ? "" : ", ") + layer.name;
  return all;
}

/// Sets is_trained for the layers that a pattern of model.train names.
void mark(const Manifest& manifest, const std::string& pattern,
          std::vector<TrainableLayer>& layers) {
  if (pattern == "last") {
    layers.back().is_trained = true;
    return;
  }
  bool names_any = false;
  for (TrainableLayer& layer : layers) {
    const auto is_named = [&](const std::string& name) { return matches_pattern(pattern, name); };
    const auto named = std::ranges::count_if(layer.tensors, is_named);
    const bool is_whole =
        is_named(layer.name) || named == static_cast<std::ptrdiff_t>(layer.tensors.size());
    if (named > 0 && !is_whole) {
      throw error_at(manifest, kTrainKey,
                     "names '" + pattern + "', a part of " + layer.name +
                         "; a layer is trained or frozen as a whole: write " + layer.name + ".*");
    }
    layer.is_trained = layer.is_trained || is_whole;
    names_any = names_any || is_whole;
  }
  if (names_any) return;
  throw error_at(manifest, kTrainKey,
                 "names '" + pattern + "', but no layer has this name; there are " +
                     listed(layers) + ", and last");
}

/// Returns the first node whose parameters another node shares; else the number of nodes.
std::size_t first_shared(const Network& network) {
  std::size_t first = network.nodes.size();
  for (const Node& node : network.nodes) first = std::min(first, node.shares.value_or(first));
  return first;
}

/// Whether the layer is linear in its own weight matrix, so that an adapter can change the matrix.
/// (If weights are shared, an adapter would change only one of the nodes that use them.)
bool can_be_adapted(const Network& network, std::size_t i) {
  const Layer& layer = network.nodes[i].layer;
  const bool is_shared =
      std::ranges::any_of(network.nodes, [=](const Node& node) { return node.shares == i; });
  return !is_shared &&
         (std::holds_alternative<Dense>(layer) || std::holds_alternative<Conv2d>(layer) ||
          std::holds_alternative<Embedding>(layer));
}

/// Sets is_adapted for layers that a pattern of model.lora.targets names, or whose weight it names.
void mark_targets(const Manifest& manifest, const Network& network, const std::string& pattern,
                  std::vector<TrainableLayer>& layers) {
  std::string others;
  bool names_any = false;
  for (TrainableLayer& layer : layers) {
    if (!matches_pattern(pattern, layer.name) && !matches_pattern(pattern, layer.name + ".weight"))
      continue;
    if (!can_be_adapted(network, layer.index)) {
      others = layer.name + ", " + privgrad::to_text(network.nodes[layer.index].layer);
      continue;
    }
    if (layer.is_trained) {
      throw error_at(manifest, kTargetsKey,
                     "names '" + pattern + "', and model.train trains " + layer.name +
                         " as a whole; a layer either has an adapter or is trained as a whole");
    }
    layer.is_adapted = names_any = true;
  }
  if (names_any) return;
  if (!others.empty()) {
    throw error_at(manifest, kTargetsKey,
                   "names '" + pattern + "', which is " + others +
                       "; dense layers, convolutions and embeddings can be adapted, unless other "
                       "nodes share their weights");
  }
  throw error_at(
      manifest, kTargetsKey,
      "names '" + pattern + "', but no layer has this name; there are " + listed(layers));
}

/// Appends node i of a network to a part of the network, under the same name.
/// \param now  for each value of the network, the value's number in the part.
/// \returns the number of the node's output in the part.
std::size_t append_node(const Network& network, std::size_t i, const std::vector<std::size_t>& now,
                        Network& part) {
  Node node = network.nodes[i];
  node.from.clear();
  for (const std::size_t value : inputs_of(network, i)) node.from.push_back(now[value]);
  if (node.from == std::vector{part.nodes.size()}) node.from.clear();
  if (node.shares) node.shares = now[*node.shares + 1] - 1;
  if (part.nodes.size() != i) node.name = name_of(network, i);
  part.nodes.push_back(std::move(node));
  return part.nodes.size();
}

/// Returns for each node whether the part after the first `layers` contains it: the part contains
/// all later nodes, and the earlier nodes that it uses, if these depend on no parameters, so that
/// their outputs need not be stored.
std::vector<bool> nodes_behind(const Network& network, std::size_t layers) {
  std::vector<bool> has_parameters(network.nodes.size() + 1, false), is_used(has_parameters);
  for (const ParameterBlock& block : parameter_blocks(network))
    has_parameters[block.node + 1] = true;
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    for (const std::size_t value : inputs_of(network, i)) {
      if (has_parameters[value]) has_parameters[i + 1] = true;
    }
  }
  std::vector<bool> is_behind(network.nodes.size(), false);
  for (std::size_t i = network.nodes.size(); i-- > 0;) {
    is_behind[i] = i >= layers || (is_used[i + 1] && !has_parameters[i + 1]);
    if (!is_behind[i]) continue;
    for (const std::size_t value : inputs_of(network, i)) is_used[value] = true;
  }
  return is_behind;
}

void check_frozen(const Manifest& manifest, const TrainableLayer& layer,
                  const std::vector<std::string>& loaded) {
  for (const std::string& tensor : layer.tensors) {
    if (std::ranges::find(loaded, tensor) != loaded.end()) continue;
    throw error_at(manifest, manifest.train.empty() ? kTargetsKey : kTrainKey,
                   (layer.is_adapted ? "adapts " : "freezes ") + tensor +
                       ", whose weights are untrained: " +
                       (manifest.weights ? "model.weights does not have it"
                                         : "give trained parameters as model.weights"));
  }
}

}  // namespace

std::vector<TrainableLayer> trained_layers(const Manifest& manifest, const Network& network) {
  std::vector<TrainableLayer> layers = trainable_layers(network);
  if (manifest.train.empty() && !manifest.lora) {
    for (TrainableLayer& layer : layers) layer.is_trained = true;
  }
  for (const std::string& pattern : manifest.train) mark(manifest, pattern, layers);
  if (manifest.lora) {
    for (const std::string& pattern : manifest.lora->targets)
      mark_targets(manifest, network, pattern, layers);
  }
  return layers;
}

std::size_t frozen_layers(const Manifest& manifest, const Network& network,
                          const std::vector<std::string>& loaded) {
  if (manifest.train.empty() && !manifest.lora) return 0;
  const std::vector<TrainableLayer> layers = trained_layers(manifest, network);
  const auto first = std::ranges::find_if(
      layers, [](const TrainableLayer& layer) { return layer.is_trained || layer.is_adapted; });
  for (const TrainableLayer& layer : layers) {
    if (!layer.is_trained) check_frozen(manifest, layer, loaded);
  }
  return first == layers.begin() ? 0 : std::min(first->index, first_shared(network));
}

bool trains_in_part(const Manifest& manifest, const Network& network, std::size_t frozen_layers) {
  const std::vector<TrainableLayer> layers = trained_layers(manifest, network);
  return std::ranges::any_of(layers, [&](const TrainableLayer& layer) {
    return layer.index >= frozen_layers && !layer.is_trained;
  });
}

std::vector<std::size_t> values_behind(const Network& network, std::size_t layers) {
  const std::vector<bool> is_behind = nodes_behind(network, layers);
  std::set<std::size_t> values;
  // The tokens of this loss are features, which are value 0.
  if (network.loss == Loss::next_token) values.insert(0);
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    if (!is_behind[i]) continue;
    for (const std::size_t value : inputs_of(network, i)) {
      if (value == 0 || !is_behind[value - 1]) values.insert(value);
    }
  }
  return {values.begin(), values.end()};
}

Network part_up_to(const Network& network, std::size_t value) {
  std::vector<bool> is_needed(value + 1, false);
  is_needed[value] = true;
  for (std::size_t i = value; i-- > 0;) {
    if (!is_needed[i + 1]) continue;
    for (const std::size_t input : inputs_of(network, i)) is_needed[input] = true;
    is_needed[owner_of(network, i) + 1] = true;
  }
  Network part{.input = network.input, .nodes = {}, .loss = Loss::squared};
  std::vector<std::size_t> now(value + 1, 0);
  for (std::size_t i = 0; i < value; ++i) {
    if (is_needed[i + 1]) now[i + 1] = append_node(network, i, now, part);
  }
  // A valid network needs a loss that fits its outputs, although this loss is never computed.
  const std::size_t outputs = output_count(part);
  part.input.classes = outputs > 1 ? outputs : 0;
  if (outputs > 1) part.loss = Loss::cross_entropy;
  return part;
}

Network last_part(const Network& network, std::size_t layers) {
  if (layers == 0) return network;
  const std::vector<Shape> shapes = value_shapes(network);
  const std::vector<std::size_t> values = values_behind(network, layers);
  Network part{.input = {{}, network.input.classes}, .nodes = {}, .loss = network.loss};
  part.class_weights = network.class_weights;
  std::vector<std::size_t> now(network.nodes.size() + 1, 0);
  const std::vector<bool> is_behind = nodes_behind(network, layers);
  const auto is_used = [&](std::size_t value) {
    for (std::size_t i = 0; i < network.nodes.size(); ++i) {
      const std::vector<std::size_t> in = inputs_of(network, i);
      if (is_behind[i] && std::ranges::find(in, value) != in.end()) return true;
    }
    return false;
  };
  if (values.size() == 1) {
    part.input.features = shapes[values.front()];
  } else {
    std::size_t first = 0;
    for (const std::size_t value : values) {
      const std::size_t size = element_count(shapes[value]), begin = first;
      first += size;
      if (!is_used(value)) continue;  // only the loss reads this value, as tokens
      part.nodes.emplace_back(PartOf{.first = begin, .size = size}, std::vector<std::size_t>{0});
      if (shapes[value].size() != 1) part.nodes.emplace_back(Reshape{shapes[value]});
      now[value] = part.nodes.size();
    }
    part.input.features = {first};
  }
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    if (is_behind[i]) now[i + 1] = append_node(network, i, now, part);
  }
  return part;
}

}  // namespace privgrad::core
