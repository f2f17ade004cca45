#include "frozen_features.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "privgrad/data/executor.hpp"
#include "privgrad/data/kept_features.hpp"
#include "privgrad/digest/sha256.hpp"
#include "privgrad/finite.hpp"
#include "privgrad/model/network_json.hpp"
#include "privgrad/plan/initial_values.hpp"
#include "privgrad/trust/program_around.hpp"

namespace privgrad::core {
namespace {

constexpr const char* kFrozenKey = "model.train";

/// Enough rows that weights are rarely read; few enough that outputs fit in the processor's cache.
constexpr std::size_t kRowsOfFeatures = 256;

/// Consecutive examples of a data set.
struct RowsInTurn {
  std::vector<std::uint32_t> rows;
  std::vector<float> features, targets;

  void take(const Dataset& data, std::size_t first, std::size_t count) {
    rows.resize(count);
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
    features.resize(count * data.row_size());
    targets.resize(count);
    data.gather(rows, features, targets);
  }
};

/// \returns the front's values side by side, [rows, after]; all NaN for an example whose features
///   or values are not all finite.
std::vector<float> outputs_of(const FrozenFront& front, std::size_t after, const Dataset& data) {
  const std::size_t before = data.row_size();
  std::vector<float> result(data.rows() * after), value;
  RowsInTurn some;
  for (std::size_t first = 0; first < data.rows(); first += kRowsOfFeatures) {
    const std::size_t count = std::min(kRowsOfFeatures, data.rows() - first);
    some.take(data, first, count);
    std::size_t column = 0;
    for (const FrozenFront::Value& one : front.values) {
      value.resize(count * one.size);
      if (one.program == nullptr) {
        value = some.features;
      } else {
        ability_of<Outputs>(*one.program)->outputs(some.features, count, value);
      }
      for (std::size_t i = 0; i < count; ++i)
        std::copy_n(value.data() + i * one.size, one.size,
                    result.data() + (first + i) * after + column);
      column += one.size;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto out = std::span(result).subspan((first + i) * after, after);
      if (all_finite(std::span(some.features).subspan(i * before, before)) && all_finite(out))
        continue;
      std::ranges::fill(out, std::numeric_limits<float>::quiet_NaN());
    }
  }
  return result;
}

/// The parameters of the whole model, with loaded values in their places and zeros elsewhere.
std::vector<float> loaded_parameters(const Setting& setting) {
  std::vector<float> whole(parameter_count(setting.whole));
  put_initial_values(setting, whole);
  return whole;
}

/// The parameters of a part of the whole model, found by their names.
std::vector<float> parameters_of(const Network& part, const Network& whole,
                                 std::span<const float> parameters) {
  std::map<std::string, std::size_t> offsets;
  for (const ParameterBlock& block : parameter_blocks(whole))
    offsets.emplace(block.name, block.offset);
  std::vector<float> own;
  for (const ParameterBlock& block : parameter_blocks(part)) {
    const auto values = parameters.subspan(offsets.at(block.name), element_count(block.shape));
    own.insert(own.end(), values.begin(), values.end());
  }
  return own;
}

// ---- the key of the outputs

std::string hash_of(std::span<const float> values) {
  Sha256 hash;
  hash.add(std::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
  return hash.hex();
}

/// Everything that determines the outputs, except the data: the layers of each value with their
/// weights, and the code that computes them.
nlohmann::json key_of_layers(const ComponentUse& backend, const Setting& setting,
                             const FrozenFront& front, std::span<const float> whole) {
  nlohmann::json key = key_of_code("backend", *backend.component, backend.params);
  std::string layers, weights;
  for (const FrozenFront::Value& one : front.values) {
    layers += to_json(one.network).dump();
    weights += hash_of(parameters_of(one.network, setting.whole, whole));
  }
  key["layers"] = sha256_hex(layers);
  key["weights"] = front.values.size() == 1 ? weights : sha256_hex(weights);
  return key;
}

}  // namespace

FrozenFront compile_frozen_layers(const Manifest& manifest, const Setting& setting,
                                  Executor& executor) {
  FrozenFront front;
  front.backend = manifest.backend.make<Backend>();
  const std::vector<Shape> shapes = value_shapes(setting.whole);
  for (const std::size_t value : values_behind(setting.whole, setting.frozen_layers)) {
    FrozenFront::Value one;
    one.size = element_count(shapes[value]);
    if (value > 0) {
      one.network = part_up_to(setting.whole, value);
      one.program = manifest.backend.with_position(
          [&] { return front.backend->compile(one.network, executor); });
      if (ability_of<Outputs>(*one.program) == nullptr) {
        throw error_at(manifest, kFrozenKey,
                       "freezes layers, but the programs of backend " + manifest.backend.name() +
                           " do not give the outputs of a layer");
      }
    }
    front.values.push_back(std::move(one));
  }
  return front;
}

void apply_frozen_layers(const Manifest& manifest, const Setting& setting, RunData& data,
                         int threads, const FeatureCache* cache) {
  if (setting.frozen_layers == 0) return;
  const auto executor = make_executor(threads);
  FrozenFront front = compile_frozen_layers(manifest, setting, *executor);
  const std::vector<float> whole = loaded_parameters(setting);
  for (FrozenFront::Value& one : front.values) {
    if (one.program != nullptr)
      one.program->load_parameters(parameters_of(one.network, setting.whole, whole));
  }
  const Shape& shape = setting.network.input.features;
  const std::size_t row_size = element_count(shape);
  if (cache != nullptr && manifest.backend.component->plugin->sha256.empty()) {
    cache->note("outputs of frozen layers are not kept: the backend's code has no hash");
    cache = nullptr;
  }
  nlohmann::json about;
  if (cache != nullptr) about = key_of_layers(manifest.backend, setting, front, whole);
  for (Dataset* split : {&data.train, &data.test}) {
    if (split->rows() == 0) continue;
    if (cache == nullptr) {
      replace_features(shape, outputs_of(front, row_size, *split), *split);
      continue;
    }
    const FeatureKey key = key_of_features(about, "outputs of frozen layers", row_size, *split);
    std::optional<std::vector<float>> outputs = cache->find(key);
    if (!outputs) {
      outputs = outputs_of(front, row_size, *split);
      cache->keep(key, *outputs);
    }
    replace_features(shape, std::move(*outputs), *split);
  }
}

void put_initial_values(const Setting& setting, std::span<float> whole) {
  if (setting.initial) return setting.initial->put_into(whole);
  if (!setting.weights || setting.recorded) return;
  throw ConfigError(
      "model.weights: this plan no longer has the values of the weights, so no training can begin "
      "from it; plan the manifest again");
}

std::size_t untrained_parameters(const Setting& setting) {
  if (!setting.lora) return setting.frozen_parameters;
  std::size_t untrained = parameter_count(setting.whole);
  for (const TrainedTensor& tensor : setting.lora->tensors) {
    if (tensor.rank == 0) untrained -= tensor.size();
  }
  return untrained;
}

std::vector<float> network_before_training(const Setting& setting) {
  const std::vector<float> whole = loaded_parameters(setting);
  return {whole.begin() + static_cast<std::ptrdiff_t>(setting.frozen_parameters), whole.end()};
}

std::vector<float> whole_parameters(const Setting& setting, std::span<const float> trained) {
  if (setting.frozen_parameters == 0 && !setting.lora) return {trained.begin(), trained.end()};
  std::vector<float> whole = loaded_parameters(setting);
  const auto network = std::span(whole).subspan(setting.frozen_parameters);
  if (setting.lora) {
    setting.lora->merge(trained, network);
  } else {
    std::ranges::copy(trained, network.begin());
  }
  return whole;
}

}  // namespace privgrad::core
