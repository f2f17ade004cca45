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
  /// As a matrix: its first extent, and all the others together.
  std::size_t rows = 0, columns = 0;
  std::size_t in_network = 0;  ///< Its first element in the network's parameters.
  std::size_t offset = 0;      ///< Its first element in the trained parameters.
  /// The rank of the adapter, A [rank, columns] followed by B [rows, rank]; 0: the tensor itself
  /// is trained.
  std::size_t rank = 0;

  std::size_t size() const { return rank == 0 ? rows * columns : rank * (rows + columns); }
};

/// Low-rank adaptation (Hu et al. 2022): a tensor W that is itself not trained becomes W + scale B
/// A, and A and B are trained. W is a matrix [units, inputs] of a dense layer, [channels, kernel *
/// kernel * input channels] of a convolution (A is then a convolution to `rank` channels, and B one
/// of 1 x 1 behind it), and the table [vocabulary, width] of an embedding.
///
/// All the parameters of a run are here: adapters, and tensors that are trained themselves, layer
/// by layer as they are in the network. Tensors that are not listed stay as they are. A layout
/// without adapters says which layers are trained, where later ones are frozen.
struct LoraLayout {
  std::vector<TrainedTensor> tensors;  ///< Side by side, without gaps.
  double scale = 1.0;                  ///< alpha / rank.

  std::size_t parameters() const;
  std::vector<ParameterGroup> groups() const;  ///< One for each layer with trained parameters.

  /// The parameters before the first step: the A are uniform in +-1 / sqrt(columns), the B are 0,
  /// so that the model is unchanged at first; tensors that are trained themselves are taken from
  /// the network.
  /// \param network  all of its parameters.
  std::vector<float> beginning(std::span<const float> network, RandomStream& random) const;

  /// Puts the trained tensors in their places, and adds the adapters: each product in double,
  /// rounded once.
  /// \param trained  [parameters()].
  /// \param network  all of its parameters; in: as they were before training; out: merged.
  void merge(std::span<const float> trained, std::span<float> network) const;
};

/// The layout for the layers that model.lora, if there is one, and model.train name.
/// \param network  the whole model.
/// \param frozen_layers  the first ones, which have no part in it; in_network counts from behind
///   them.
/// \throws ManifestError for a rank that makes an adapter no smaller than its tensor.
LoraLayout lora_layout(const Manifest& manifest, const Network& network, std::size_t frozen_layers);

/// A program whose parameters are those of a layout, around one of the whole network.
///
/// By the chain rule, with G the gradient by the merged tensor: scale B^T G by A, and scale G A^T
/// by B. So the program inside computes an example's gradient as ever, and each adapter takes its
/// two products of it; convolutions and embeddings need nothing else, since they are linear in W as
/// well. A step costs what rows of the whole network cost, and two thin products for each adapter.
///
/// Privacy: an example's row is a function of its own row inside and of the parameters, in a fixed
/// order of additions: the same bits at any place in any batch. This row, of the trained parameters
/// alone, is clipped, summed and noised; its length is bounded there, so that the adapters'
/// products need no bound of their own. The product forms of norms (ExactClipping) belong to the
/// layers inside, and are not offered. Losses and outputs are those of the program inside.
/// Threads: as Program.
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
