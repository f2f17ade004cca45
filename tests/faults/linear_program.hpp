// A small program of one dense layer that derived classes break in one way.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <variant>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/error.hpp"
#include "privgrad/params.hpp"
#include "privgrad/row_evaluations.hpp"

/// One dense layer and any loss, row by row in double: small enough to be checked by reading, with
/// functions that faults can override.
class LinearProgram : public privgrad::Program,
                      public privgrad::Outputs,
                      public privgrad::RowEvaluations {
 public:
  explicit LinearProgram(privgrad::Network network)
      : network_(std::move(network)),
        inputs_(privgrad::element_count(network_.input.features)),
        outputs_(privgrad::output_count(network_)),
        parameters_(outputs_ * (inputs_ + 1)) {}

  std::size_t parameter_count() const override { return parameters_.size(); }
  void load_parameters(std::span<const float> parameters) override {
    parameters_.assign(parameters.begin(), parameters.end());
  }
  void gradient_rows(const privgrad::Batch& batch, std::span<float> rows) const override {
    for (std::size_t row = 0; row < batch.rows(); ++row) gradient_row(batch, row, rows);
  }
  privgrad::Evaluation evaluate(const privgrad::Batch& batch) const override {
    privgrad::Evaluation sum;
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      const std::vector<double> output = outputs(batch, row);
      sum.loss += loss(output, batch.targets[row]);
      sum.correct += correct(output, batch.targets[row]) ? 1 : 0;
    }
    return sum;
  }

  void evaluate_rows(const privgrad::Batch& batch,
                     std::span<privgrad::Evaluation> each) const override {
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      each[row] =
          evaluate({.features = example(batch, row), .targets = batch.targets.subspan(row, 1)});
    }
  }

  void outputs(std::span<const float> features, std::size_t rows,
               std::span<float> out) const override {
    const std::vector<float> targets(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::vector<double> output = outputs(privgrad::Batch{features, targets}, row);
      for (std::size_t i = 0; i < outputs_; ++i)
        out[row * outputs_ + i] = static_cast<float>(output[i]);
    }
  }

 protected:
  std::span<const float> example(const privgrad::Batch& batch, std::size_t row) const {
    return batch.features.subspan(row * inputs_, inputs_);
  }
  std::vector<double> outputs(const privgrad::Batch& batch, std::size_t row) const {
    const auto x = example(batch, row);
    std::vector<double> output(outputs_);
    for (std::size_t unit = 0; unit < outputs_; ++unit) {
      output[unit] = static_cast<double>(parameters_[outputs_ * inputs_ + unit]);
      for (std::size_t i = 0; i < inputs_; ++i) {
        output[unit] +=
            static_cast<double>(parameters_[unit * inputs_ + i]) * static_cast<double>(x[i]);
      }
    }
    return output;
  }
  void gradient_row(const privgrad::Batch& batch, std::size_t row, std::span<float> rows) const {
    const std::vector<double> slope = slopes(outputs(batch, row), batch.targets[row]);
    const auto out = rows.subspan(row * parameters_.size(), parameters_.size());
    for (std::size_t unit = 0; unit < outputs_; ++unit) {
      for (std::size_t i = 0; i < inputs_; ++i) {
        out[unit * inputs_ + i] =
            static_cast<float>(slope[unit] * static_cast<double>(example(batch, row)[i]));
      }
      out[outputs_ * inputs_ + unit] = static_cast<float>(slope[unit]);
    }
  }
  double wanted(std::size_t unit, float target) const {
    if (network_.input.classes == 0) return static_cast<double>(target);
    return unit == static_cast<std::size_t>(target) ? 1.0 : 0.0;
  }
  static std::vector<double> softmax(std::vector<double> output) {
    const double top = *std::max_element(output.begin(), output.end());
    double sum = 0.0;
    for (double& value : output) sum += value = std::exp(value - top);
    for (double& value : output) value /= sum;
    return output;
  }
  virtual double loss(const std::vector<double>& output, float target) const {
    double sum = 0.0;
    switch (network_.loss) {
      case privgrad::Loss::cross_entropy:
        return -std::log(softmax(output)[static_cast<std::size_t>(target)]);
      case privgrad::Loss::squared:
        for (std::size_t unit = 0; unit < outputs_; ++unit) {
          sum += 0.5 * std::pow(output[unit] - wanted(unit, target), 2);
        }
        return sum;
      case privgrad::Loss::logistic:
        return std::log1p(std::exp(target == 1.0f ? -output[0] : output[0]));
      case privgrad::Loss::next_token:
        break;  // not in a plain chain
    }
    return sum;
  }
  virtual std::vector<double> slopes(std::vector<double> output, float target) const {
    if (network_.loss == privgrad::Loss::logistic) {
      return {1.0 / (1.0 + std::exp(-output[0])) - static_cast<double>(target)};
    }
    if (network_.loss == privgrad::Loss::cross_entropy) output = softmax(std::move(output));
    for (std::size_t unit = 0; unit < outputs_; ++unit) output[unit] -= wanted(unit, target);
    return output;
  }
  virtual bool correct(const std::vector<double>& output, float target) const {
    if (network_.input.classes == 0) return false;
    if (outputs_ == 1) return (output[0] > 0.0) == (target == 1.0f);
    const auto best = std::max_element(output.begin(), output.end()) - output.begin();
    return best == static_cast<std::ptrdiff_t>(target);
  }

  privgrad::Network network_;
  std::size_t inputs_;
  std::size_t outputs_;
  std::vector<float> parameters_;
};

/// Compiles only networks of a single dense layer.
template <class Impl>
class OneLayerBackend : public privgrad::Backend {
 public:
  explicit OneLayerBackend(const privgrad::Params&) {}
  std::unique_ptr<privgrad::Program> compile(const privgrad::Network& network,
                                             privgrad::Executor& executor) override {
    const auto* dense = std::get_if<privgrad::Dense>(&network.nodes.front().layer);
    if (network.nodes.size() != 1 || dense == nullptr || dense->per_place || dense->no_bias ||
        !privgrad::is_plain_chain(network))
      throw privgrad::ConfigError("only one dense layer");
    if constexpr (std::is_constructible_v<Impl, privgrad::Network, privgrad::Executor&>) {
      return std::make_unique<Impl>(network, executor);
    } else {
      return std::make_unique<Impl>(network);
    }
  }
};
