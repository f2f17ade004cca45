// Low-rank adapters (LoRA): which parameters a run trains, and a program that trains only these.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "privgrad/backend.hpp"
#include "privgrad/clipping.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/network.hpp"
#include "privgrad/random.hpp"
#include "privgrad/row_evaluations.hpp"
#include "privgrad/trust/program_around.hpp"

namespace privgrad::core {

/// The trained part of one tensor of a network: the tensor itself, or an adapter of low rank.
struct TrainedTensor {
  std::string name;  ///< "layers.0.weight".
  /// As a matrix: its first extent, and the product of the others.
  std::size_t rows = 0, columns = 0;
  std::size_t in_network = 0;  ///< Its first element in the network's parameters.
  std::size_t offset = 0;      ///< Its first element in the trained parameters.
  /// The rank of the adapter, A [rank, columns] followed by B [rows, rank]; 0 if the tensor itself
  /// is trained.
  std::size_t rank = 0;

  std::size_t size() const { return rank == 0 ? rows * columns : rank * (rows + columns); }
};

/// Low-rank adaptation (Hu et al. 2022): an untrained tensor W becomes W + scale B A, and A and B
/// are trained. W is a matrix [units, inputs] of a dense layer, [channels, kernel * kernel * input
/// channels] of a convolution (A is then a convolution to `rank` channels, followed by B as a 1 x 1
/// convolution), and the table [vocabulary, width] of an embedding.
///
/// The layout lists all parameters of a run: adapters, and tensors that are themselves trained,
/// layer by layer as in the network. Tensors that are not listed do not change. A layout without
/// adapters says which layers are trained if later ones are frozen.
struct LoraLayout {
  std::vector<TrainedTensor> tensors;  ///< Consecutive, without gaps.
  double scale = 1.0;                  ///< alpha / rank.

  std::size_t parameters() const;
  std::vector<ParameterGroup> groups() const;  ///< One for each layer with trained parameters.

  /// The parameters before the first step: the A are uniform in +-1 / sqrt(columns), the B are 0,
  /// so that the model is initially unchanged; tensors that are themselves trained are copied from
  /// the network.
  /// \param network  all of its parameters.
  std::vector<float> beginning(std::span<const float> network, RandomStream& random) const;

  /// Copies the trained tensors to their places, and adds the adapters: each product in double,
  /// rounded once.
  /// \param trained  [parameters()].
  /// \param network  all of its parameters; in: before training; out: merged.
  void merge(std::span<const float> trained, std::span<float> network) const;
};

/// The layout for the layers that model.train and, if present, model.lora name.
/// \param network  the whole model.
/// \param frozen_layers  the number of first layers that are not part of it; in_network counts from
///   their end.
/// \throws ManifestError for a rank that makes an adapter no smaller than its tensor.
LoraLayout lora_layout(const Manifest& manifest, const Network& network, std::size_t frozen_layers);

/// A program whose parameters are those of a layout; it wraps a program of the whole network.
///
/// By the chain rule, if G is the gradient with respect to the merged tensor, the gradients are
/// scale B^T G with respect to A, and scale G A^T with respect to B. So the inner program computes
/// an example's gradient as usual, and each adapter forms its two products; this also holds for
/// convolutions and embeddings, which are linear in W. A step costs as much as rows of the whole
/// network, plus two thin products for each adapter.
///
/// Privacy: an example's row is a function of its row in the inner program and of the parameters,
/// in a fixed order of additions: the same bits at any place in any batch. This row, of only the
/// trained parameters, is clipped, summed and noised; that bounds its length, so the adapters'
/// products need no bound of their own. The product forms of norms (ExactClipping) belong to the
/// inner layers, and are not offered. Losses and outputs are those of the inner program. Threads:
/// as Program.
class LoraProgram final : public Keeping<ReproducibleRows, RowEvaluations, Outputs> {
 public:
  /// \param program  for the whole network.
  /// \param base  the network's parameters before training.
  LoraProgram(std::unique_ptr<Program> program, LoraLayout layout, std::vector<float> base);

  const Program& inside() const override { return *program_; }
  std::size_t parameter_count() const override { return layout_.parameters(); }
  void load_parameters(std::span<const float> parameters) override;
  void gradient_rows(const Batch& batch, std::span<float> rows) const override;
  Evaluation evaluate(const Batch& batch) const override { return program_->evaluate(batch); }

 private:
  void project(std::span<const float> gradient, std::span<float> row) const;

  std::unique_ptr<Program> program_;
  LoraLayout layout_;
  std::vector<float> base_;
  std::vector<float> trained_;
};

}  // namespace privgrad::core
