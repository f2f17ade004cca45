// Low-rank adapters (LoRA): the parameters that a run trains, and the network that contains them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "privgrad/manifest/manifest.hpp"
#include "privgrad/network.hpp"
#include "privgrad/random.hpp"

namespace privgrad::core {

/// The trained part of one tensor of a network: the tensor itself, or an adapter of low rank.
struct TrainedTensor {
  std::string name;  ///< "layers.0.weight".
  /// The tensor's shape as a matrix: the first extent, and the product of the others.
  std::size_t rows = 0, columns = 0;
  std::size_t in_network = 0;  ///< The tensor's first element in the network's parameters.
  std::size_t offset = 0;      ///< The tensor's first element in the trained parameters.
  /// The rank of the adapter; 0 if the tensor itself is trained. The adapter is A [rank, columns]
  /// followed by B [rows, rank], or, for a table, B followed by the transpose of A.
  std::size_t rank = 0;
  bool is_table = false;

  std::size_t size() const { return rank == 0 ? rows * columns : rank * (rows + columns); }
};

/// Low-rank adaptation (Hu et al. 2022): an untrained tensor W becomes W + scale B A, and A and B
/// are trained. W is the matrix [units, inputs] of a dense layer, the matrix
/// [channels, kernel * kernel * input channels] of a convolution (A is then a convolution to `rank`
/// channels, followed by B as a 1 x 1 convolution), or the table [vocabulary, width] of an
/// embedding (B is a table of `rank` columns, followed by the transpose of A as a dense layer at
/// each place).
///
/// The layout lists all parameters of a run: adapters, and tensors that are themselves trained,
/// layer by layer as in the network. Tensors that are not listed do not change. Networks without
/// adapters have a layout, too, if a layer after the first trained layer is frozen.
struct LoraLayout {
  std::vector<TrainedTensor> tensors;  ///< Consecutive, without gaps.
  double scale = 1.0;                  ///< alpha / rank.

  std::size_t parameters() const;

  /// Returns the parameters before the first step: the elements of each A are uniform between
  /// -1/sqrt(columns) and 1/sqrt(columns), and each B is 0, so that the model is initially
  /// unchanged; tensors that are themselves trained are copied from the network.
  /// \param network  all parameters of the network.
  std::vector<float> beginning(std::span<const float> network, RandomStream& random) const;

  /// Copies the trained tensors to their places, and adds the adapters; each element is computed in
  /// double and rounded once.
  /// \param trained  the trained parameters, [parameters()].
  /// \param network  all parameters of the network; in: before training; out: merged.
  void merge(std::span<const float> trained, std::span<float> network) const;
};

/// Returns the layout for the layers that model.train and, if present, model.lora name.
/// \param network  the whole model.
/// \param frozen_layers  the number of frozen layers at the beginning, which are not part of the
///   layout; in_network counts from the end of their parameters.
/// \throws ManifestError for a rank that makes an adapter no smaller than its tensor, for an alpha
///   that makes `scale` 0 in float32, and as trained_layers().
LoraLayout lora_layout(const Manifest& manifest, const Network& network, std::size_t frozen_layers);

/// Returns a network whose trained parameters are the parameters of the layout. Nodes whose tensors
/// are not in the layout are frozen. An adapted node becomes the sum of the frozen node and of
/// `scale` times two layers without biases. So a program computes norms, cells and sums only for
/// the layout's parameters, and no derivative below the first of them.
///
/// The adapters of node NAME are NAME.lora_a and NAME.lora_b.
/// \param network  the layers after the frozen first layers.
/// \param parameters  all parameters of these layers before training.
Network network_with_adapters(const Network& network, const LoraLayout& layout,
                              std::span<const float> parameters);

}  // namespace privgrad::core
