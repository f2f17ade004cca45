#include "frozen_features.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "privgrad/error.hpp"
#include "privgrad/pipeline/executor.hpp"

namespace privgrad::core {
namespace {

constexpr const char* kFrozenKey = "model.train";

/// Enough that the weights are read seldom, few enough to be in a cache.
constexpr std::size_t kRowsOfFeatures = 256;

bool all_numbers(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

/// \param shape  of what comes out of the layers.
void replace_by_outputs(const Outputs& layers, const Shape& shape, Dataset& data) {
  const std::size_t before = data.row_size(), after = element_count(shape);
  std::vector<float> result(data.rows() * after);
  std::vector<std::size_t> no_numbers;
  std::vector<std::uint32_t> rows;
  std::vector<float> features, targets;
  for (std::size_t first = 0; first < data.rows(); first += kRowsOfFeatures) {
    const std::size_t count = std::min(kRowsOfFeatures, data.rows() - first);
    rows.resize(count);
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(first));
    features.resize(count * before);
    targets.resize(count);
    data.gather(rows, features, targets);
    layers.outputs(features, count, std::span(result).subspan(first * after, count * after));
    for (std::size_t i = 0; i < count; ++i) {
      const auto out = std::span(result).subspan((first + i) * after, after);
      if (all_numbers(std::span(features).subspan(i * before, before)) && all_numbers(out))
        continue;
      std::fill(out.begin(), out.end(), 0.0f);
      no_numbers.push_back(first + i);
    }
  }
  data.replace_features(shape, std::move(result));
  // To stop here would tell of one row.
  const std::span<float> written = data.features();
  for (const std::size_t row : no_numbers) {
    const auto out = written.subspan(row * after, after);
    std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace

std::unique_ptr<Program> compile_frozen_layers(const Manifest& manifest, const Setting& setting,
                                               ComponentPtr<Backend>& backend, Executor& executor) {
  if (dynamic_cast<const SelfExecuting*>(setting.model.get()) != nullptr) {
    throw error_at(manifest, kFrozenKey,
                   "freezes layers of " + manifest.model.name() +
                       ", a model that executes itself as a whole; train all of it");
  }
  const Network layers = first_part(setting.whole, setting.frozen_layers);
  backend = manifest.backend.make<Backend>();
  auto program = manifest.backend.with_position([&] { return backend->compile(layers, executor); });
  if (dynamic_cast<const Outputs*>(program.get()) == nullptr) {
    throw error_at(manifest, kFrozenKey,
                   "freezes layers, but the programs of backend " + manifest.backend.name() +
                       " do not give the outputs of a layer");
  }
  return program;
}

void apply_frozen_layers(const Manifest& manifest, const Setting& setting, RunData& data,
                         int threads) {
  if (setting.frozen_layers == 0) return;
  const auto executor = make_executor(threads);
  ComponentPtr<Backend> backend;
  const auto program = compile_frozen_layers(manifest, setting, backend, *executor);
  const std::vector<float> nothing(setting.parameters);
  const std::vector<float> whole = whole_parameters(setting, nothing);
  program->load_parameters(std::span(whole).first(setting.frozen_parameters));
  const auto& layers = dynamic_cast<const Outputs&>(*program);
  for (Dataset* split : {&data.train, &data.test}) {
    if (split->rows() > 0) replace_by_outputs(layers, setting.network.input.features, *split);
  }
}

namespace {

/// As many as the whole model has, with those that were loaded in their places.
std::vector<float> loaded_parameters(const Setting& setting) {
  std::vector<float> whole(parameter_count(setting.whole));
  if (setting.initial) setting.initial->put_into(whole);
  return whole;
}

}  // namespace

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
    std::copy(trained.begin(), trained.end(), network.begin());
  }
  return whole;
}

}  // namespace privgrad::core
