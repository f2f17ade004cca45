// The @KIND@ @NAME@.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/plugin.hpp"

namespace @NAMESPACE@ {

/// Processes one example at a time, in double, with plain loops: slow and easy to check.
class @CLASS@Program final : public privgrad::Program {
 public:
  @CLASS@Program(privgrad::Network network, privgrad::Executor& executor)
      : network_(std::move(network)),
        executor_(executor),
        input_size_(privgrad::element_count(network_.input.features)),
        parameters_(privgrad::parameter_count(network_)) {
    std::size_t size = input_size_;
    std::size_t offset = 0;
    for (const auto& [layer, from, name, is_frozen, shares] : network_.nodes) {
      Step step{.layer = layer, .inputs = size, .outputs = size, .offset = offset};
      if (const auto* dense = std::get_if<privgrad::Dense>(&layer)) {
        step.outputs = dense->units;
        offset += (size + 1) * dense->units;
        size = dense->units;
      }
      steps_.push_back(step);
    }
  }

  std::size_t parameter_count() const override { return parameters_.size(); }

  void load_parameters(std::span<const float> parameters) override {
    if (parameters.size() != parameters_.size()) {
      throw privgrad::ConfigError("@NAME@: got " + std::to_string(parameters.size()) +
                                  " parameters, the network has " +
                                  std::to_string(parameters_.size()));
    }
    std::copy(parameters.begin(), parameters.end(), parameters_.begin());
  }

  void gradient_rows(const privgrad::Batch& batch, std::span<float> rows) const override {
    for_each_row(batch, [&](std::size_t, std::size_t row) {
      const auto out = rows.subspan(row * parameters_.size(), parameters_.size());
      const Activations values = forward(example(batch, row));
      std::vector<double> gradient;
      loss(values.back(), batch.targets[row], &gradient);
      backward(values, std::move(gradient), out);
    });
  }

  privgrad::Evaluation evaluate(const privgrad::Batch& batch) const override {
    // One sum per chunk, added up in order, so that the result does not depend on the number of
    // threads.
    std::vector<privgrad::Evaluation> parts(chunk_count(batch));
    for_each_row(batch, [&](std::size_t chunk, std::size_t row) {
      const Activations values = forward(example(batch, row));
      parts[chunk].loss += loss(values.back(), batch.targets[row], nullptr);
      parts[chunk].correct += is_correct(values.back(), batch.targets[row]) ? 1 : 0;
    });
    privgrad::Evaluation sum;
    for (const privgrad::Evaluation& part : parts) {
      sum.loss += part.loss;
      sum.correct += part.correct;
    }
    return sum;
  }

 private:
  /// The values of each layer for one example, input first; scratch space of one thread.
  using Activations = std::vector<std::vector<double>>;

  static double activate(privgrad::ActivationKind kind, double x) {
    switch (kind) {
      case privgrad::ActivationKind::relu:
        return std::max(x, 0.0);
      case privgrad::ActivationKind::tanh:
        return std::tanh(x);
      case privgrad::ActivationKind::sigmoid:
        return 1.0 / (1.0 + std::exp(-x));
      default:
        break;
    }
    throw privgrad::ConfigError("@NAME@: unknown activation");
  }

  /// The derivative, from the value y = activate(kind, x).
  static double slope(privgrad::ActivationKind kind, double y) {
    switch (kind) {
      case privgrad::ActivationKind::relu:
        return y > 0.0 ? 1.0 : 0.0;
      case privgrad::ActivationKind::tanh:
        return 1.0 - y * y;
      case privgrad::ActivationKind::sigmoid:
        return y * (1.0 - y);
      default:
        break;
    }
    throw privgrad::ConfigError("@NAME@: unknown activation");
  }

  /// ln(1 + exp(x)) without overflow.
  static double softplus(double x) {
    return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  }

  struct Step {
    privgrad::Layer layer;
    std::size_t inputs = 0;
    std::size_t outputs = 0;
    std::size_t offset = 0;  ///< Offset of the weights; the biases follow them.
  };

  // Chosen from the problem, not from the machine, as Executor requires.
  static constexpr std::size_t kRowsPerChunk = 16;

  static std::size_t chunk_count(const privgrad::Batch& batch) {
    return (batch.rows() + kRowsPerChunk - 1) / kRowsPerChunk;
  }

  template <class Body>
  void for_each_row(const privgrad::Batch& batch, const Body& body) const {
    executor_.for_each_chunk(chunk_count(batch), [&](std::size_t chunk) {
      const std::size_t end = std::min(batch.rows(), (chunk + 1) * kRowsPerChunk);
      for (std::size_t row = chunk * kRowsPerChunk; row < end; ++row) body(chunk, row);
    });
  }

  std::span<const float> example(const privgrad::Batch& batch, std::size_t row) const {
    return batch.features.subspan(row * input_size_, input_size_);
  }

  Activations forward(std::span<const float> features) const {
    Activations values{{features.begin(), features.end()}};
    for (const Step& step : steps_) {
      const std::vector<double>& in = values.back();
      std::vector<double> out(step.outputs);
      if (const auto* activation = std::get_if<privgrad::Activation>(&step.layer)) {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = activate(activation->kind, in[i]);
      } else {
        const double* weights = parameters_.data() + step.offset;
        const double* biases = weights + step.inputs * step.outputs;
        for (std::size_t i = 0; i < out.size(); ++i) {
          double sum = biases[i];
          for (std::size_t j = 0; j < in.size(); ++j) sum += weights[i * in.size() + j] * in[j];
          out[i] = sum;
        }
      }
      values.push_back(std::move(out));
    }
    return values;
  }

  /// Turns the gradient with respect to the outputs into the gradient with respect to the
  /// parameters.
  void backward(const Activations& values, std::vector<double> gradient,
                std::span<float> out) const {
    for (std::size_t k = steps_.size(); k-- > 0;) {
      const Step& step = steps_[k];
      const std::vector<double>& in = values[k];
      if (const auto* activation = std::get_if<privgrad::Activation>(&step.layer)) {
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          gradient[i] *= slope(activation->kind, values[k + 1][i]);
        }
        continue;
      }
      const double* weights = parameters_.data() + step.offset;
      float* weight_gradient = out.data() + step.offset;
      float* bias_gradient = weight_gradient + step.inputs * step.outputs;
      std::vector<double> below(in.size(), 0.0);
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        bias_gradient[i] = static_cast<float>(gradient[i]);
        for (std::size_t j = 0; j < in.size(); ++j) {
          weight_gradient[i * in.size() + j] = static_cast<float>(gradient[i] * in[j]);
          below[j] += gradient[i] * weights[i * in.size() + j];
        }
      }
      gradient = std::move(below);
    }
  }

  /// \param gradient  out, unless null: with respect to the outputs.
  double loss(const std::vector<double>& outputs, float target,
              std::vector<double>* gradient) const {
    switch (network_.loss) {
      case privgrad::Loss::cross_entropy:
        return cross_entropy(outputs, target, gradient);
      case privgrad::Loss::squared:
        return squared(outputs, target, gradient);
      case privgrad::Loss::logistic:
        return logistic(outputs, target, gradient);
      case privgrad::Loss::next_token:
        break;  // not the loss of a plain chain
    }
    throw privgrad::ConfigError("@NAME@: unknown loss");
  }

  static double cross_entropy(const std::vector<double>& outputs, float target,
                              std::vector<double>* gradient) {
    const double largest = *std::max_element(outputs.begin(), outputs.end());
    double sum = 0.0;
    for (const double output : outputs) sum += std::exp(output - largest);
    const auto chosen = static_cast<std::size_t>(target);
    if (gradient != nullptr) {
      for (const double output : outputs) gradient->push_back(std::exp(output - largest) / sum);
      (*gradient)[chosen] -= 1.0;
    }
    return std::log(sum) + largest - outputs[chosen];
  }

  double squared(const std::vector<double>& outputs, float target,
                 std::vector<double>* gradient) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      double wanted = target;
      if (network_.input.classes > 0) wanted = i == static_cast<std::size_t>(target) ? 1.0 : 0.0;
      const double difference = outputs[i] - wanted;
      sum += 0.5 * difference * difference;
      if (gradient != nullptr) gradient->push_back(difference);
    }
    return sum;
  }

  static double logistic(const std::vector<double>& outputs, float target,
                         std::vector<double>* gradient) {
    const double sign = target > 0.5f ? 1.0 : -1.0;
    const double margin = sign * outputs[0];
    if (gradient != nullptr) gradient->push_back(-sign * std::exp(-softplus(margin)));
    return softplus(-margin);
  }

  bool is_correct(const std::vector<double>& outputs, float target) const {
    if (network_.input.classes == 0) return false;
    const auto chosen = static_cast<std::size_t>(target);
    if (outputs.size() == 1) return (outputs[0] > 0.0) == (chosen == 1);
    const auto largest = std::max_element(outputs.begin(), outputs.end());
    return static_cast<std::size_t>(largest - outputs.begin()) == chosen;
  }

  privgrad::Network network_;
  privgrad::Executor& executor_;
  std::size_t input_size_;
  std::vector<double> parameters_;
  std::vector<Step> steps_;
};

class @CLASS@ final : public privgrad::Backend {
 public:
  static privgrad::ComponentInfo declaration() {
    return {
        .name = "@NAME@",
        .summary = "Plain loops in double precision, one example at a time.",
        .reference = "Rumelhart, Hinton and Williams 1986 (back-propagation)",
        .params = {},
    };
  }

  explicit @CLASS@(const privgrad::Params&) {}

  std::unique_ptr<privgrad::Program> compile(const privgrad::Network& network,
                                             privgrad::Executor& executor) override {
    privgrad::check_network(network);
    if (!privgrad::is_plain_chain(network))
      throw privgrad::ConfigError("@NAME@: executes chains of trained layers");
    for (const auto& [layer, from, name, is_frozen, shares] : network.nodes) {
      // A backend may refuse any layer, but it must name it.
      if (!executes(layer)) {
        throw privgrad::ConfigError("@NAME@: cannot execute the layer " +
                                    privgrad::to_text(layer) +
                                    "; it executes dense layers that flatten, relu, tanh and "
                                    "sigmoid");
      }
    }
    return std::make_unique<@CLASS@Program>(network, executor);
  }

 private:
  static bool executes(const privgrad::Layer& layer) {
    if (const auto* dense = std::get_if<privgrad::Dense>(&layer))
      return !dense->per_place && !dense->no_bias;
    const auto* activation = std::get_if<privgrad::Activation>(&layer);
    if (activation == nullptr) return false;
    switch (activation->kind) {
      case privgrad::ActivationKind::relu:
      case privgrad::ActivationKind::tanh:
      case privgrad::ActivationKind::sigmoid:
        return true;
      default:
        return false;
    }
  }
};

}  // namespace @NAMESPACE@
