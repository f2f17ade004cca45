// A network on a GPU or on its twin: per-example gradients, exact clipping and evaluation.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "../flow.hpp"
#include "device.hpp"
#include "layers/step.hpp"
#include "privgrad/backend.hpp"

namespace privgrad::cuda {

class CudaPass;

/// A network on a device. An example's results are a function of only the example and the
/// parameters, bit for bit, and have the same bits as in the backend `cpu`: outputs, losses,
/// gradients, norms, cells and their lengths. (Only the bits of NaNs may differ.)
///
/// Parameters stay on the device; each pass has memory and a queue of its own. Non-finite examples
/// give non-finite rows, norms and losses, and do not affect other examples.
class CudaProgram : public Program, public ExactClipping, public ReproducibleRows, public Outputs {
 public:
  /// \throws ConfigError that names the part that cannot be executed here or does not fit in
  ///   memory.
  CudaProgram(Network network, std::shared_ptr<Device> device);
  ~CudaProgram() override;

  std::size_t parameter_count() const override { return parameter_count_; }
  void load_parameters(std::span<const float> parameters) final;
  void gradient_rows(const Batch& batch, std::span<float> rows) const override;
  Evaluation evaluate(const Batch& batch) const override;
  void outputs(std::span<const float> features, std::size_t rows,
               std::span<float> outputs) const override;

  std::size_t groups() const final { return group_steps_.size(); }
  std::size_t microbatch_rows() const override { return microbatch_rows_; }
  std::unique_ptr<Pass> make_pass(std::size_t most_rows) const override;
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override;
  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<SquaredLength> lengths) const override;
  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override;

 protected:
  // The parts of a pass, run in a queue.
  void run_forward(Queue& queue, CudaPass& pass) const;
  void run_backward(Queue& queue, CudaPass& pass, bool with_norms) const;
  void run_cells(Queue& queue, CudaPass& pass, std::uint64_t most_cells) const;
  /// sum += the cells of the examples of pass.taken.
  void run_sum(Queue& queue, CudaPass& pass, std::uint64_t* sum) const;
  GroupPass group_pass(CudaPass& pass, std::size_t group) const;
  const std::shared_ptr<Device>& device() const { return device_; }
  std::size_t step_of(std::size_t group) const { return group_steps_[group]; }
  const Step& step(std::size_t number) const { return *steps_[number]; }
  float* parameters() const { return parameters_.data(); }
  std::size_t inputs() const { return inputs_; }

 private:
  class Lease;

  void place_steps();
  std::unique_ptr<CudaPass> make(const std::shared_ptr<Device>& device, std::size_t most_rows,
                                 PassUse use) const;
  std::unique_ptr<CudaPass> make_if_it_fits(std::size_t most_rows, PassUse use) const;
  std::size_t bytes_of_microbatch(std::size_t rows, PassUse use) const;
  std::size_t rows_within(std::size_t bytes, std::size_t most_rows, PassUse use) const;
  void check(const Batch& batch) const;
  void forward(const Batch& batch, CudaPass& pass) const;
  void connect(CudaPass& pass) const;
  std::size_t size_of(std::size_t value) const;
  LossOf loss() const;

  Network network_;
  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::size_t> group_steps_;
  Flow flow_;
  std::size_t inputs_ = 0, outputs_ = 0, places_ = 0, parameter_count_ = 0;
  std::size_t microbatch_rows_ = 0, own_rows_ = 0;
  Array<float> parameters_, frozen_;
  Array<double> class_weights_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<CudaPass>> idle_;  // each with own_rows_ rows
};

}  // namespace privgrad::cuda
