#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "matrix.hpp"
#include "privgrad/backend.hpp"

namespace privgrad::cpu {

/// A network on the processor: a block of examples forwards, then backwards, then each example's
/// products delta_i a_j into its row. Runs on the calling thread: the core calls it for several
/// chunks of a batch at the same time.
///
/// Every element of a row comes from operations on its example alone, in an order that neither the
/// batch nor the block changes: rows are bitwise equal whatever surrounds them. float32, with the
/// losses and their derivatives in double. Non-finite examples give non-finite rows and losses, and
/// touch no other example.
class CpuProgram final : public Program {
 public:
  /// \throws ConfigError naming what cannot be executed here.
  explicit CpuProgram(Network network);

  std::size_t parameter_count() const override { return parameter_count_; }
  void load_parameters(std::span<const float> parameters) override;
  void gradient_rows(const Batch& batch, std::span<float> rows) const override;
  Evaluation evaluate(const Batch& batch) const override;

 private:
  struct DenseStep {
    std::size_t inputs = 0;
    std::size_t units = 0;
    std::size_t weights = 0;  // where they begin in the parameters, and in a row
    std::size_t biases = 0;
    std::vector<float> bias;
    PanelMatrix forward;   // [inputs, units]
    PanelMatrix backward;  // [units, inputs]; empty in the first dense step, where nobody asks
  };
  struct ActivationStep {
    ActivationKind kind;
    std::size_t units;
  };
  using Step = std::variant<DenseStep, ActivationStep>;

  /// What goes through the steps for some examples: values[s], [count, units of step s - 1], enters
  /// step s; values.back() are the outputs.
  struct Block {
    std::size_t count = 0;
    std::vector<std::span<const float>> values;
    std::vector<float> storage;
  };

  void add_step(const Layer& layer, std::size_t index);
  void check(const Batch& batch) const;
  void forward(const Batch& batch, Block& block) const;
  void backward(const Batch& batch, const Block& block, std::span<float> rows) const;
  void write_products(const DenseStep& step, std::span<const float> entering,
                      std::span<const float> delta, std::span<float> rows) const;

  Network network_;
  std::size_t inputs_ = 0;
  std::size_t outputs_ = 0;             // of the last step so far
  std::size_t parameter_count_ = 0;     // of the steps so far
  std::size_t values_per_example_ = 0;  // floats that all steps together produce
  std::size_t first_dense_ = 0;         // below it no gradient is needed
  std::vector<Step> steps_;
};

}  // namespace privgrad::cpu
