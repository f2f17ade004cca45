// A network on the processor: per-example gradients, exact clipping and evaluation.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "exact.hpp"
#include "losses.hpp"
#include "privgrad/backend.hpp"
#include "privgrad/row_evaluations.hpp"

namespace privgrad::cpu {

/// A network on the processor, computed in two ways. Both use the matrix products of chains.hpp, so
/// they give the same bits for the same example among any others.
///
/// gradient_rows() is the reference: it passes a block of examples forwards, then backwards, then
/// writes each example's gradient into its row, on the calling thread.
///
/// ExactClipping, evaluate() and outputs() use the fast way (ExactEngine), on all threads.
///
/// Numbers are float32; losses.hpp says what is computed in double. Non-finite examples give
/// non-finite rows, norms and losses, and do not affect other examples.
class CpuProgram final : public Program,
                         public ExactClipping,
                         public ReproducibleRows,
                         public Outputs,
                         public RowEvaluations {
 public:
  /// \throws ConfigError naming the part that cannot be executed here.
  CpuProgram(Network network, Executor& executor);

  std::size_t parameter_count() const override { return parameters_.size(); }
  void load_parameters(std::span<const float> parameters) override;
  void gradient_rows(const Batch& batch, std::span<float> rows) const override;
  Evaluation evaluate(const Batch& batch) const override;
  void evaluate_rows(const Batch& batch, std::span<Evaluation> each) const override;
  void outputs(std::span<const float> features, std::size_t rows,
               std::span<float> outputs) const override;

  std::size_t groups() const override { return engine_->groups(); }
  std::size_t microbatch_rows() const override { return engine_->microbatch_rows(); }
  std::uint64_t pass_bytes(std::size_t most_rows) const override {
    return engine_->pass_bytes(most_rows);
  }
  std::unique_ptr<Pass> make_pass(std::size_t most_rows) const override;
  void backward(const Batch& batch, Pass& pass, std::span<double> squared_norms) const override;
  void make_cells(Pass& pass, std::span<const double> scales, std::uint64_t most_cells,
                  std::span<SquaredLength> lengths) const override;
  void add_cells(Pass& pass, std::span<const std::uint8_t> taken,
                 std::span<std::int64_t> sum) const override;

  std::span<const std::size_t> piece_ends() const override { return engine_->range_ends(); }
  void choose(Pass& pass, std::span<const std::uint8_t> taken) const override;
  void add_piece(Pass& pass, std::size_t piece, std::span<std::int64_t> sum) const override;

 private:
  /// The values of some examples; the last are the outputs.
  struct Block {
    std::size_t count = 0;
    std::vector<const float*> values;
    std::vector<float> storage;
    Scratch scratch;
  };

  /// Memory for the evaluation of evaluation_rows_ examples, lent to one call at a time.
  class EvaluationPass;

  /// Calls body(row, its outputs) for each row of a batch, in order.
  template <class Body>
  void for_each_output(const Batch& batch, const Body& body) const;
  void check(const Batch& batch) const;
  void prepare() const;
  void forward(const Batch& batch, Block& block) const;
  void backward(const Batch& batch, Block& block, std::span<float> rows) const;
  void inputs_of_step(std::size_t step, Block& block) const;
  std::size_t size_of(std::size_t value) const;
  std::span<const float> features_of(const Batch& batch, std::size_t row) const {
    return batch.features.subspan(row * inputs_, inputs_);
  }

  Network network_;
  Executor& executor_;
  Steps steps_;
  Flow flow_;
  LossOf loss_;
  std::vector<float> parameters_;
  std::size_t inputs_ = 0;
  std::size_t outputs_ = 0;
  std::size_t values_per_example_ = 0;  // floats per example that all steps together produce
  std::unique_ptr<ExactEngine> engine_;
  std::size_t evaluation_rows_ = 0;
  mutable std::mutex evaluation_mutex_;
  mutable std::vector<std::unique_ptr<ExactPass>> evaluation_passes_;
  mutable std::mutex ready_mutex_;
  mutable std::atomic<bool> ready_ = false;
};

}  // namespace privgrad::cpu
