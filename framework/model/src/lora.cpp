#include "privgrad/model/lora.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/model/trainable_layers.hpp"

namespace privgrad::core {
namespace {

/// Where an adapter has the element (row, r) of B, and the element (r, column) of A.
struct Factors {
  explicit Factors(const TrainedTensor& one) : tensor(one) {}

  std::size_t of_b(std::size_t row, std::size_t r) const {
    return (tensor.is_table ? 0 : tensor.rank * tensor.columns) + row * tensor.rank + r;
  }
  std::size_t of_a(std::size_t r, std::size_t column) const {
    return tensor.is_table ? tensor.rank * (tensor.rows + column) + r : r * tensor.columns + column;
  }

  const TrainedTensor& tensor;
};

struct AdapterLayers {
  Layer first, second;
};

AdapterLayers adapter_of(const Layer& layer, std::size_t rank) {
  if (const auto* dense = std::get_if<Dense>(&layer)) {
    return {Dense{.units = rank, .per_place = dense->per_place, .no_bias = true},
            Dense{.units = dense->units, .per_place = dense->per_place, .no_bias = true}};
  }
  if (const auto* conv = std::get_if<Conv2d>(&layer)) {
    return {Conv2d{.channels = rank,
                   .kernel = conv->kernel,
                   .stride = conv->stride,
                   .padding = conv->padding,
                   .no_bias = true},
            Conv2d{.channels = conv->channels, .kernel = 1, .no_bias = true}};
  }
  const auto& table = std::get<Embedding>(layer);
  return {Embedding{.vocabulary = table.vocabulary, .width = rank},
          Dense{.units = table.width, .per_place = true, .no_bias = true}};
}

/// Builds the network with adapters node by node.
class Rewriting {
 public:
  Rewriting(const Network& network, double scale)
      : network_(network), scale_(scale), now_(network.nodes.size() + 1, 0) {
    result_.input = network.input;
    result_.loss = network.loss;
    result_.class_weights = network.class_weights;
  }

  /// \param rank  the rank of the node's adapter; 0 if it has none.
  void add(std::size_t i, bool is_frozen, std::size_t rank) {
    const std::vector<std::size_t> in = now(inputs_of(network_, i));
    const std::string name = name_of(network_, i);
    const Layer& layer = network_.nodes[i].layer;
    std::size_t made = append(layer, in, name, is_frozen);
    placed_.push_back(made - 1);
    if (network_.nodes[i].shares) result_.nodes.back().shares = placed_[*network_.nodes[i].shares];
    if (rank > 0) {
      const AdapterLayers adapter = adapter_of(layer, rank);
      const bool is_table = std::holds_alternative<Embedding>(layer);
      const std::size_t first =
          append(adapter.first, in, name + (is_table ? ".lora_b" : ".lora_a"));
      const std::size_t second =
          append(adapter.second, {first}, name + (is_table ? ".lora_a" : ".lora_b"));
      made = append(Add{}, {made, scale_ == 1.0 ? second : append(Scale{scale_}, {second})});
    }
    now_[i + 1] = made;
  }

  Network take() && { return std::move(result_); }

 private:
  std::vector<std::size_t> now(std::vector<std::size_t> values) const {
    for (std::size_t& value : values) value = now_[value];
    return values;
  }

  std::size_t append(Layer layer, std::vector<std::size_t> from, std::string name = "",
                     bool is_frozen = false) {
    Node node(std::move(layer), std::move(from), std::move(name));
    node.is_frozen = is_frozen;
    result_.nodes.push_back(std::move(node));
    return result_.nodes.size();
  }

  const Network& network_;
  double scale_;
  std::vector<std::size_t> now_;     // for each value of the network, its number in the result
  std::vector<std::size_t> placed_;  // for each node of the network, its number in the result
  Network result_;
};

}  // namespace

std::size_t LoraLayout::parameters() const {
  return tensors.empty() ? 0 : tensors.back().offset + tensors.back().size();
}

std::vector<float> LoraLayout::beginning(std::span<const float> network,
                                         RandomStream& random) const {
  std::vector<float> trained(parameters(), 0.0f);
  for (const TrainedTensor& tensor : tensors) {
    float* const to = trained.data() + tensor.offset;
    if (tensor.rank == 0) {
      std::copy_n(network.data() + tensor.in_network, tensor.size(), to);
      continue;
    }
    const double limit = 1.0 / std::sqrt(static_cast<double>(tensor.columns));
    const Factors at(tensor);
    for (std::size_t r = 0; r < tensor.rank; ++r) {
      for (std::size_t column = 0; column < tensor.columns; ++column)
        to[at.of_a(r, column)] = static_cast<float>(limit * (2.0 * random.uniform() - 1.0));
    }
  }
  return trained;
}

void LoraLayout::merge(std::span<const float> trained, std::span<float> network) const {
  for (const TrainedTensor& tensor : tensors) {
    const float* const from = trained.data() + tensor.offset;
    float* to = network.data() + tensor.in_network;
    if (tensor.rank == 0) {
      std::copy_n(from, tensor.size(), to);
      continue;
    }
    const Factors at(tensor);
    for (std::size_t row = 0; row < tensor.rows; ++row) {
      for (std::size_t column = 0; column < tensor.columns; ++column, ++to) {
        double change = 0.0;
        for (std::size_t r = 0; r < tensor.rank; ++r)
          change += static_cast<double>(from[at.of_b(row, r)]) *
                    static_cast<double>(from[at.of_a(r, column)]);
        *to = static_cast<float>(static_cast<double>(*to) + scale * change);
      }
    }
  }
}

LoraLayout lora_layout(const Manifest& manifest, const Network& network,
                       std::size_t frozen_layers) {
  const std::size_t rank = manifest.lora ? manifest.lora->rank : 0;
  LoraLayout layout{.tensors = {}, .scale = 1.0};
  if (manifest.lora) layout.scale = manifest.lora->alpha / static_cast<double>(rank);
  if (static_cast<float>(layout.scale) == 0.0f) {
    throw error_at(manifest, "model.lora.alpha",
                   "is so small that alpha / rank is 0 in float32, and nothing would be trained");
  }
  const std::vector<ParameterBlock> blocks = parameter_blocks(network);
  for (const TrainableLayer& layer : trained_layers(manifest, network)) {
    if (layer.index < frozen_layers || (!layer.is_trained && !layer.is_adapted)) continue;
    for (const ParameterBlock& block : blocks) {
      if (block.node != layer.index) continue;
      if (layer.is_adapted && block.name != layer.name + ".weight") continue;
      TrainedTensor tensor{
          .name = block.name,
          .rows = block.shape.front(),
          .columns = element_count(block.shape) / block.shape.front(),
          .in_network = block.offset,
          .offset = layout.parameters(),
          .rank = layer.is_adapted ? rank : 0,
          .is_table = std::holds_alternative<Embedding>(network.nodes[layer.index].layer)};
      const std::size_t numbers = element_count(block.shape);
      if (layer.is_adapted && (rank > numbers || tensor.size() >= numbers)) {
        throw error_at(manifest, "model.lora.rank",
                       "is " + std::to_string(rank) + ", so the adapter of " + block.name +
                           " has no fewer numbers than the " + std::to_string(numbers) +
                           " that it adapts; train the layer itself (model.train), or lower it");
      }
      layout.tensors.push_back(std::move(tensor));
    }
  }
  std::size_t before = 0;
  for (const ParameterBlock& block : blocks) {
    if (block.node < frozen_layers) before += element_count(block.shape);
  }
  for (TrainedTensor& tensor : layout.tensors) tensor.in_network -= before;
  return layout;
}

Network network_with_adapters(const Network& network, const LoraLayout& layout,
                              std::span<const float> parameters) {
  Rewriting rewriting(network, layout.scale);
  const std::vector<ParameterBlock> blocks = parameter_blocks(network);
  std::vector<float> frozen;
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    std::size_t rank = 0;
    bool is_trained = false, has_parameters = false;
    for (const ParameterBlock& block : blocks) {
      if (block.node != i) continue;
      has_parameters = true;
      for (const TrainedTensor& tensor : layout.tensors) {
        if (tensor.name != block.name) continue;
        rank = std::max(rank, tensor.rank);
        is_trained = is_trained || tensor.rank == 0;
      }
    }
    const bool is_frozen = has_parameters && !is_trained;
    rewriting.add(i, is_frozen, rank);
    if (!is_frozen) continue;
    for (const ParameterBlock& block : blocks) {
      if (block.node != i) continue;
      const auto own = parameters.subspan(block.offset, element_count(block.shape));
      frozen.insert(frozen.end(), own.begin(), own.end());
    }
  }
  Network result = std::move(rewriting).take();
  result.frozen = std::move(frozen);
  return result;
}

}  // namespace privgrad::core
