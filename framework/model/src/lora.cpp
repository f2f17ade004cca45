#include "privgrad/model/lora.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/model/trainable_layers.hpp"

namespace privgrad::core {
namespace {

/// Limits on the gradients of the whole network in memory at once, in floats and in examples; they
/// are consumed example by example.
constexpr std::size_t kMostFloats = std::size_t{1} << 20;
constexpr std::size_t kMostRows = 16;

/// The sum of x[i] y[i] in eight lanes, the same on every processor: the products are exact in
/// double.
double dot(const float* x, const float* y, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(y[i + lane]);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane)
    lanes[lane] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

/// sum += factor * x.
void add_scaled(double factor, const float* x, std::size_t count, double* sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += factor * static_cast<double>(x[i]);
}

/// The gradients with respect to A and B from the gradient with respect to the merged tensor.
/// \param gradient  [rows, columns].
/// \param trained  A and B; out: laid out like it.
void by_adapter(const TrainedTensor& tensor, double scale, const float* gradient,
                const float* trained, float* out) {
  const std::size_t rank = tensor.rank, columns = tensor.columns;
  const float* const b = trained + rank * columns;
  std::vector<double> by_a(rank * columns, 0.0);
  float* by_b = out + rank * columns;
  for (std::size_t row = 0; row < tensor.rows; ++row, gradient += columns, by_b += rank) {
    // Most rows of an embedding's gradient, and those of inactive units, are zero.
    if (std::all_of(gradient, gradient + columns, [](float x) { return x == 0.0f; })) {
      std::fill_n(by_b, rank, 0.0f);
      continue;
    }
    for (std::size_t r = 0; r < rank; ++r) {
      by_b[r] = static_cast<float>(scale * dot(gradient, trained + r * columns, columns));
      add_scaled(static_cast<double>(b[row * rank + r]), gradient, columns,
                 by_a.data() + r * columns);
    }
  }
  std::transform(by_a.begin(), by_a.end(), out,
                 [scale](double sum) { return static_cast<float>(scale * sum); });
}

}  // namespace

std::size_t LoraLayout::parameters() const {
  return tensors.empty() ? 0 : tensors.back().offset + tensors.back().size();
}

std::vector<ParameterGroup> LoraLayout::groups() const {
  std::vector<ParameterGroup> groups;
  for (const TrainedTensor& tensor : tensors) {
    const std::string layer = layer_of(tensor.name);
    if (groups.empty() || groups.back().name != layer) groups.push_back({layer, tensor.offset, 0});
    groups.back().size += tensor.size();
  }
  return groups;
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
    std::generate_n(to, tensor.rank * tensor.columns,
                    [&] { return static_cast<float>(limit * (2.0 * random.uniform() - 1.0)); });
  }
  return trained;
}

void LoraLayout::merge(std::span<const float> trained, std::span<float> network) const {
  std::vector<double> change;
  for (const TrainedTensor& tensor : tensors) {
    const float* const from = trained.data() + tensor.offset;
    float* to = network.data() + tensor.in_network;
    if (tensor.rank == 0) {
      std::copy_n(from, tensor.size(), to);
      continue;
    }
    const float* b = from + tensor.rank * tensor.columns;
    for (std::size_t row = 0; row < tensor.rows; ++row, to += tensor.columns) {
      change.assign(tensor.columns, 0.0);
      for (std::size_t r = 0; r < tensor.rank; ++r)
        add_scaled(static_cast<double>(*b++), from + r * tensor.columns, tensor.columns,
                   change.data());
      for (std::size_t i = 0; i < tensor.columns; ++i)
        to[i] = static_cast<float>(static_cast<double>(to[i]) + scale * change[i]);
    }
  }
}

LoraLayout lora_layout(const Manifest& manifest, const Network& network,
                       std::size_t frozen_layers) {
  const std::size_t rank = manifest.lora ? manifest.lora->rank : 0;
  LoraLayout layout{.tensors = {}, .scale = 1.0};
  if (manifest.lora) layout.scale = manifest.lora->alpha / static_cast<double>(rank);
  const std::vector<ParameterBlock> blocks = parameter_blocks(network);
  for (const TrainableLayer& layer : trained_layers(manifest, network)) {
    if (layer.index < frozen_layers || (!layer.is_trained && !layer.is_adapted)) continue;
    for (const ParameterBlock& block : blocks) {
      if (layer_of(block.name) != layer.name) continue;
      if (layer.is_adapted && block.name != layer.name + ".weight") continue;
      TrainedTensor tensor{.name = block.name,
                           .rows = block.shape.front(),
                           .columns = element_count(block.shape) / block.shape.front(),
                           .in_network = block.offset,
                           .offset = layout.parameters(),
                           .rank = layer.is_adapted ? rank : 0};
      const std::size_t numbers = element_count(block.shape);
      if (layer.is_adapted && (rank > numbers || tensor.size() >= numbers)) {
        throw error_at(manifest, "model.lora.rank",
                       "is " + std::to_string(rank) + ", whose adapter of " + block.name +
                           " has no fewer numbers than the " + std::to_string(numbers) +
                           " that it adapts; train the layer itself (model.train), or lower it");
      }
      layout.tensors.push_back(std::move(tensor));
    }
  }
  const std::size_t before =
      frozen_layers == 0 ? 0 : parameter_count(first_part(network, frozen_layers));
  for (TrainedTensor& tensor : layout.tensors) tensor.in_network -= before;
  return layout;
}

LoraProgram::LoraProgram(std::unique_ptr<Program> program, LoraLayout layout,
                         std::vector<float> base)
    : program_(std::move(program)),
      layout_(std::move(layout)),
      base_(std::move(base)),
      trained_(layout_.parameters()) {}

void LoraProgram::load_parameters(std::span<const float> parameters) {
  std::vector<float> merged = base_;
  layout_.merge(parameters, merged);
  program_->load_parameters(merged);
  std::copy(parameters.begin(), parameters.end(), trained_.begin());
}

void LoraProgram::gradient_rows(const Batch& batch, std::span<float> rows) const {
  if (batch.rows() == 0) return;
  const std::size_t inside = base_.size(), own = trained_.size();
  const std::size_t inputs = batch.features.size() / batch.rows();
  const std::size_t at_once = std::clamp<std::size_t>(kMostFloats / inside, 1, kMostRows);
  const auto memory = std::make_unique_for_overwrite<float[]>(at_once * inside);
  for (std::size_t first = 0; first < batch.rows(); first += at_once) {
    const std::size_t count = std::min(at_once, batch.rows() - first);
    const std::span<float> gradients(memory.get(), count * inside);
    program_->gradient_rows({batch.features.subspan(first * inputs, count * inputs),
                             batch.targets.subspan(first, count)},
                            gradients);
    for (std::size_t i = 0; i < count; ++i)
      project(gradients.subspan(i * inside, inside), rows.subspan((first + i) * own, own));
  }
}

void LoraProgram::project(std::span<const float> gradient, std::span<float> row) const {
  for (const TrainedTensor& tensor : layout_.tensors) {
    const float* const from = gradient.data() + tensor.in_network;
    float* const to = row.data() + tensor.offset;
    if (tensor.rank == 0) {
      std::copy_n(from, tensor.size(), to);
    } else {
      by_adapter(tensor, layout_.scale, from, trained_.data() + tensor.offset, to);
    }
  }
}

}  // namespace privgrad::core
