#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "losses.hpp"
#include "privgrad/error.hpp"

namespace privgrad::cpu {
namespace {

/// Examples that go through the network together: enough to read the weights seldom, few enough
/// that what they leave behind stays in the cache.
constexpr std::size_t kBlock = 64;

[[noreturn]] void refuse(const std::string& what) { throw ConfigError("backend cpu: " + what); }

void check_size(const char* what, std::size_t size, std::size_t expected) {
  if (size == expected) return;
  refuse(std::string(what) + " has " + std::to_string(size) + " elements, expected " +
         std::to_string(expected));
}

std::size_t block_end(std::size_t first, std::size_t rows) {
  return std::min(first + kBlock, rows);
}

Batch part(const Batch& batch, std::size_t inputs, std::size_t first, std::size_t count) {
  return {batch.features.subspan(first * inputs, count * inputs),
          batch.targets.subspan(first, count)};
}

void add_to_rows(std::span<const float> summand, std::span<float> rows) {
  for (auto row = rows.begin(); row != rows.end();) {
    for (const float value : summand) *row++ += value;
  }
}

/// A NaN passes through every activation: an example that went wrong must not look right.
void activate(ActivationKind kind, std::span<const float> in, std::span<float> out) {
  switch (kind) {
    case ActivationKind::relu:
      std::transform(in.begin(), in.end(), out.begin(), [](float x) { return x <= 0 ? 0 : x; });
      return;
    case ActivationKind::tanh:
      std::transform(in.begin(), in.end(), out.begin(), [](float x) { return std::tanh(x); });
      return;
    case ActivationKind::sigmoid:
      // exp(-x) = inf for x < -88 gives the right 0.
      std::transform(in.begin(), in.end(), out.begin(),
                     [](float x) { return 1.0f / (1.0f + std::exp(-x)); });
      return;
  }
}

/// delta *= f'(x), from y = f(x). The derivative of relu at 0 is 0.
void scale_by_derivative(ActivationKind kind, std::span<const float> y, std::span<float> delta) {
  switch (kind) {
    case ActivationKind::relu:
      for (std::size_t i = 0; i < y.size(); ++i) delta[i] = y[i] == 0 ? 0 : delta[i];
      return;
    case ActivationKind::tanh:
      for (std::size_t i = 0; i < y.size(); ++i) delta[i] *= (1.0f - y[i]) * (1.0f + y[i]);
      return;
    case ActivationKind::sigmoid:
      for (std::size_t i = 0; i < y.size(); ++i) delta[i] *= y[i] * (1.0f - y[i]);
      return;
  }
}

}  // namespace

CpuProgram::CpuProgram(Network network) : network_(std::move(network)) {
  inputs_ = outputs_ = element_count(network_.input.features);
  for (std::size_t i = 0; i < network_.layers.size(); ++i) add_step(network_.layers[i], i);
  check_network(network_);
}

void CpuProgram::add_step(const Layer& layer, std::size_t index) {
  const std::string name = "layer " + std::to_string(index);
  if (const auto* dense = std::get_if<Dense>(&layer)) {
    if (dense->units == 0) refuse(name + ", dense 0, has no units; it needs at least 1");
    if (parameter_count_ == 0) first_dense_ = steps_.size();
    DenseStep step;
    step.inputs = outputs_;
    step.units = dense->units;
    step.weights = parameter_count_;
    step.biases = step.weights + element_count({step.units, step.inputs});
    step.bias.resize(step.units);
    step.forward = PanelMatrix(step.inputs, step.units);
    if (parameter_count_ != 0) step.backward = PanelMatrix(step.units, step.inputs);
    parameter_count_ = step.biases + step.units;
    outputs_ = step.units;
    steps_.push_back(std::move(step));
  } else if (const auto* activation = std::get_if<Activation>(&layer)) {
    to_text(activation->kind);  // throws for a kind outside the enumeration
    steps_.push_back(ActivationStep{activation->kind, outputs_});
  } else {
    refuse(name + ", " + to_text(layer) +
           ", is not executed here; dense and activation layers are");
  }
  values_per_example_ += outputs_;
}

void CpuProgram::load_parameters(std::span<const float> parameters) {
  check_size("the parameter vector", parameters.size(), parameter_count_);
  for (Step& step : steps_) {
    auto* dense = std::get_if<DenseStep>(&step);
    if (dense == nullptr) continue;
    const auto weights = parameters.subspan(dense->weights, dense->units * dense->inputs);
    const auto biases = parameters.subspan(dense->biases, dense->units);
    dense->forward.assign_transposed(weights);
    if (!dense->backward.empty()) dense->backward.assign(weights);
    std::copy(biases.begin(), biases.end(), dense->bias.begin());
  }
}

void CpuProgram::check(const Batch& batch) const {
  check_size("the batch's features", batch.features.size(), batch.rows() * inputs_);
}

void CpuProgram::gradient_rows(const Batch& batch, std::span<float> rows) const {
  check(batch);
  check_size("the memory for gradient rows", rows.size(), batch.rows() * parameter_count_);
  Block block;
  for (std::size_t first = 0; first < batch.rows(); first += kBlock) {
    const std::size_t count = block_end(first, batch.rows()) - first;
    const Batch examples = part(batch, inputs_, first, count);
    forward(examples, block);
    backward(examples, block, rows.subspan(first * parameter_count_, count * parameter_count_));
  }
}

Evaluation CpuProgram::evaluate(const Batch& batch) const {
  check(batch);
  Evaluation evaluation;
  Block block;
  for (std::size_t first = 0; first < batch.rows(); first += kBlock) {
    const std::size_t count = block_end(first, batch.rows()) - first;
    const Batch examples = part(batch, inputs_, first, count);
    forward(examples, block);
    for (std::size_t i = 0; i < count; ++i) {
      const Judgement judgement =
          judge(network_, block.values.back().subspan(i * outputs_, outputs_), examples.targets[i]);
      evaluation.loss += judgement.loss;
      evaluation.correct += judgement.correct ? 1 : 0;
    }
  }
  return evaluation;
}

void CpuProgram::forward(const Batch& batch, Block& block) const {
  block.count = batch.rows();
  block.storage.resize(block.count * values_per_example_);
  block.values.assign(1, batch.features);
  std::span<float> free = block.storage;
  for (const Step& step : steps_) {
    const std::span<const float> in = block.values.back();
    std::span<float> out;
    if (const auto* dense = std::get_if<DenseStep>(&step)) {
      out = free.first(block.count * dense->units);
      dense->forward.multiply(block.count, in, out);
      add_to_rows(dense->bias, out);
    } else {
      const auto& activation = std::get<ActivationStep>(step);
      out = free.first(block.count * activation.units);
      activate(activation.kind, in, out);
    }
    free = free.subspan(out.size());
    block.values.push_back(out);
  }
}

void CpuProgram::backward(const Batch& batch, const Block& block, std::span<float> rows) const {
  std::vector<float> delta(block.count * outputs_);
  for (std::size_t i = 0; i < block.count; ++i) {
    loss_gradient(network_, block.values.back().subspan(i * outputs_, outputs_), batch.targets[i],
                  std::span(delta).subspan(i * outputs_, outputs_));
  }
  for (std::size_t s = steps_.size(); s-- > first_dense_;) {
    if (const auto* dense = std::get_if<DenseStep>(&steps_[s])) {
      write_products(*dense, block.values[s], delta, rows);
      if (s == first_dense_) return;
      std::vector<float> below(block.count * dense->inputs);
      dense->backward.multiply(block.count, delta, below);
      delta = std::move(below);
    } else {
      scale_by_derivative(std::get<ActivationStep>(steps_[s]).kind, block.values[s + 1], delta);
    }
  }
}

void CpuProgram::write_products(const DenseStep& step, std::span<const float> entering,
                                std::span<const float> delta, std::span<float> rows) const {
  const std::size_t count = delta.size() / step.units;
  for (std::size_t i = 0; i < count; ++i) {
    float* row = rows.data() + i * parameter_count_;
    const float* in = entering.data() + i * step.inputs;
    const float* deltas = delta.data() + i * step.units;
    for (std::size_t j = 0; j < step.units; ++j) {
      float* weights = row + step.weights + j * step.inputs;
      for (std::size_t k = 0; k < step.inputs; ++k) weights[k] = deltas[j] * in[k];
    }
    std::copy(deltas, deltas + step.units, row + step.biases);
  }
}

}  // namespace privgrad::cpu
