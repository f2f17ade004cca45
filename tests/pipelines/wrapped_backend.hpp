// A backend around `cpu`, whose programs a test changes in one way.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "privgrad/backend.hpp"
#include "train.hpp"

/// Executes like `cpu`.
class Wrapped : public privgrad::Program,
                public privgrad::ExactClipping,
                public privgrad::ReproducibleRows {
 public:
  explicit Wrapped(std::unique_ptr<privgrad::Program> program)
      : program_(std::move(program)),
        exact_(dynamic_cast<const privgrad::ExactClipping&>(*program_)) {}
  std::size_t parameter_count() const override { return program_->parameter_count(); }
  void load_parameters(std::span<const float> values) override {
    program_->load_parameters(values);
  }
  void gradient_rows(const privgrad::Batch& batch, std::span<float> rows) const override {
    program_->gradient_rows(batch, rows);
  }
  privgrad::Evaluation evaluate(const privgrad::Batch& batch) const override {
    return program_->evaluate(batch);
  }
  std::size_t groups() const override { return exact_.groups(); }
  std::size_t microbatch_rows() const override { return exact_.microbatch_rows(); }
  std::unique_ptr<Pass> make_pass(std::size_t most_rows) const override {
    return exact_.make_pass(most_rows);
  }
  void backward(const privgrad::Batch& batch, Pass& pass,
                std::span<double> squared_norms) const override {
    exact_.backward(batch, pass, squared_norms);
  }
  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<privgrad::SquaredLength> lengths) const override {
    exact_.make_cells(pass, scales, most_cells, lengths);
  }
  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override {
    exact_.add_cells(pass, taken, sum);
  }

 private:
  std::unique_ptr<privgrad::Program> program_;
  const privgrad::ExactClipping& exact_;
};

/// Compiles like `cpu`, and wraps the program in `Made`.
template <class Made>
class BackendOf final : public privgrad::Backend {
 public:
  explicit BackendOf(const privgrad::Params&)
      : cpu_(house().create<Backend>("cpu", privgrad::Value::Object{})) {}
  std::unique_ptr<privgrad::Program> compile(const privgrad::Network& network,
                                             privgrad::Executor& executor) override {
    return std::make_unique<Made>(cpu_->compile(network, executor));
  }

 private:
  privgrad::ComponentPtr<privgrad::Backend> cpu_;
};

/// Returns the run's own report about its checks.
inline nlohmann::json checks_of(const Experiment& experiment) {
  return nlohmann::json::parse(read_file(experiment.run_dir() / "summary.json")).at("checks");
}
