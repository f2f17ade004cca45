// Programs whose gradients a test chooses through the data, and an executor with one thread.
#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include "privgrad/backend.hpp"
#include "privgrad/error.hpp"

/// A program whose per-example gradient is the example itself, so that tests choose gradients by
/// choosing data. The target chooses how the row is spoilt: 0 not at all, 1 NaN, 2 infinity, 3
/// minus infinity (each only in the last coordinate).
class EchoProgram final : public privgrad::Program {
 public:
  explicit EchoProgram(std::size_t parameters) : parameters_(parameters) {}
  std::size_t parameter_count() const override { return parameters_; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const privgrad::Batch& batch, std::span<float> rows) const override {
    std::copy(batch.features.begin(), batch.features.end(), rows.begin());
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < batch.rows(); ++i) {
      float& last = rows[(i + 1) * parameters_ - 1];
      if (batch.targets[i] == 1.0f) last = std::numeric_limits<float>::quiet_NaN();
      if (batch.targets[i] == 2.0f) last = kInfinity;
      if (batch.targets[i] == 3.0f) last = -kInfinity;
    }
  }
  privgrad::Evaluation evaluate(const privgrad::Batch& batch) const override {
    return {.loss = static_cast<double>(batch.rows()), .correct = batch.rows()};
  }

 private:
  std::size_t parameters_;
};

/// A program whose gradients are the features, except that it does not write numbers whose feature
/// is 0.
class ForgetfulProgram final : public privgrad::Program {
 public:
  explicit ForgetfulProgram(std::size_t parameters = 1) : parameters_(parameters) {}
  std::size_t parameter_count() const override { return parameters_; }
  void load_parameters(std::span<const float>) override {}
  void gradient_rows(const privgrad::Batch& batch, std::span<float> rows) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (batch.features[i] != 0.0f) rows[i] = batch.features[i];
    }
  }
  privgrad::Evaluation evaluate(const privgrad::Batch&) const override { return {}; }

 private:
  std::size_t parameters_;
};

/// Runs work in order on the calling thread.
class SerialExecutor final : public privgrad::Executor {
 public:
  void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override {
    for (std::size_t i = 0; i < chunks; ++i) body(i);
  }
};

/// One for all tests: it has no state.
inline SerialExecutor serial;
