// Finds the tensors of a model in files that use other names and another order.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace privgrad {

/// Where a file of weights holds a tensor of a model, and in which order.
struct TensorSource {
  std::string block = "";  ///< The name of the model's tensor (ParameterBlock::name).
  std::string name = "";   ///< The name of the file's tensor.
  /// Whether the file's tensor has the shape [inputs, units] instead of [units, inputs].
  bool transposed = false;
  /// Whether the file's images have [channels, height, width]: its convolutions are [channels,
  /// inputs, kernel, kernel], and a dense layer after an image reads the values in that order.
  bool channels_first = false;
  /// The row at which this tensor begins in a longer one, counted along the file tensor's first
  /// extent, or its last if transposed. Empty: the file's tensor has exactly this tensor's rows.
  std::optional<std::size_t> first_row = std::nullopt;
  /// The name of a table in the file, whose first row is added to each row of this tensor. Empty:
  /// no row is added.
  std::string plus_first_row_of = "";

  bool operator==(const TensorSource&) const = default;
};

}  // namespace privgrad
